"""Float8 layers: other numbers of rows fall back to the plain product."""

import torch

from gpuscope.advice.changes.transforms.float8_layers import Float8Layer


def test_rows_that_float8_cannot_sum_over_are_multiplied_as_they_are():
    linear = torch.nn.Linear(32, 48)
    layer = Float8Layer(linear)
    x = torch.randn(3, 5, 32)
    torch.testing.assert_close(layer(x), linear(x))
    assert layer.weight is linear.weight
