"""Layers of 8 and 4 bits: errors within the rounding that they do."""

import pytest
import torch
from torch import nn

from gpuscope.advice.changes.transforms.quantized_linears import (
    GROUP,
    DynamicInt8,
    Int8Weights,
    _by_group,
    replace_linears,
)


def _layer(bias=True):
    torch.manual_seed(0)
    return nn.Linear(256, 48, bias)


@pytest.mark.parametrize("rows", [1, 5, 40])
@torch.no_grad()
def test_outputs_are_those_of_rounded_weights(rows):
    layer, x = _layer(), torch.randn(rows, 256)
    small = Int8Weights(layer)
    rounded = small.integers.float() * small.scale.unsqueeze(1)
    assert (rounded - layer.weight).abs().max() <= small.scale.max() * 0.5001
    torch.testing.assert_close(small(x), nn.functional.linear(x, rounded, layer.bias))
    dynamic = DynamicInt8(layer)(x.view(1, rows, 256))
    assert dynamic.shape == (1, rows, 48)
    # Both operands are rounded to a 254th of their largest: errors of sums of 256 stay small.
    assert (dynamic[0] - layer(x)).abs().max() < 0.03 * layer(x).abs().max()


@torch.no_grad()
def test_groups_of_four_bits_come_back_within_half_a_step():
    weight = torch.randn(16, 2 * GROUP)
    integers, both = _by_group(weight)
    assert integers.min() >= 0
    assert integers.max() <= 15
    scale, zero = both.float().transpose(0, 1).unbind(-1)
    back = (integers.view(16, 2, GROUP) - 8) * scale.unsqueeze(-1) + zero.unsqueeze(-1)
    error = (back.view(16, -1) - weight).abs().max()
    # Half a step, and the rounding of scale and zero to bfloat16.
    assert error < 0.5 * scale.max() + 0.01 * zero.abs().max() + 8 * 0.004 * scale.max()


def test_tied_weights_stay():
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9, bias=False), nn.Linear(9, 2))
    model[1].weight = model[0].weight
    assert replace_linears(model, Int8Weights) == 1
    assert type(model[1]) is nn.Linear
    assert type(model[2]) is Int8Weights
