"""`bilinear` taken apart: PyTorch's own values, and a product for each output."""

from __future__ import annotations

import pytest
import torch
from captured import named, of

from gpuscope.program.capture.trilinear import trilinear

OUTPUT = ([1, 3], [0], [1, 2], [2, 3])
"""What each factor lacks and what is summed, as `bilinear` asks for its result; then as its
gradients do."""


@pytest.mark.parametrize(
    ("which", "dims"),
    [
        ("awb", OUTPUT),
        ("gwb", ([2, 3], [0], [1, 2], [1, 3])),
        ("agb", ([1, 3], [2, 3], [1, 2], [0])),
        ("awg", ([1, 3], [0], [2, 3], [1, 2])),
    ],
)
def test_values_are_those_of_pytorch(which: str, dims: tuple[list[int], ...]) -> None:
    torch.manual_seed(0)
    factors = {
        "a": torch.randn(5, 4),
        "b": torch.randn(5, 3),
        "w": torch.randn(6, 4, 3),
        "g": torch.randn(5, 6),
    }
    given = [factors[name] for name in which]
    torch.testing.assert_close(trilinear(*given, *dims), torch._trilinear(*given, *dims))


def test_a_layer_multiplies_for_each_of_its_outputs() -> None:
    def build():
        layer = torch.nn.Bilinear(4, 3, 6).cuda()
        a, b = torch.randn(5, 4, device="cuda"), torch.randn(5, 3, device="cuda")

        def step():
            with torch.no_grad():
                return layer(a, b)

        return step

    program = of(build)
    assert not named(program, "_trilinear")
    assert len(named(program, "bmm")) == 2 * 6
    assert len(named(program, "add_")) >= 6
