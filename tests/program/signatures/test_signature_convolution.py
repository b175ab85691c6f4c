"""Convolutions: outputs equal PyTorch's, in either layout; 2021's traces by their gradients."""

from __future__ import annotations

import pytest
import torch
from signature_oracle import meta, recorded, spec

from gpuscope.program.signatures import complete, forward_sized, output_sizes
from gpuscope.program.types import Op


def real(x: torch.Tensor, w: torch.Tensor, stride: int, padding: int, groups: int) -> torch.Tensor:
    return torch.nn.functional.conv2d(x, w, stride=stride, padding=padding, groups=groups)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "groups"),
    [(14, 3, 1, 1, 1), (224, 7, 2, 3, 1), (7, 1, 1, 0, 1), (9, 3, 2, 0, 4)],
)
def test_forward(
    last: bool, size: int, kernel: int, stride: int, padding: int, groups: int
) -> None:
    x, w = meta(2, 8, size, size), meta(12, 8 // groups, kernel, kernel)
    if last:
        x = x.to(memory_format=torch.channels_last)
    y = real(x, w, stride, padding, groups)
    s, p, d = [stride] * 2, [padding] * 2, [1, 1]
    calls = (
        recorded("aten::cudnn_convolution", x, w, p, s, d, groups, True, False, True),
        recorded("aten::convolution", x, w, None, s, p, d, False, [0, 0], groups),
        recorded("aten::miopen_convolution", x, w, None, p, s, d, groups, False, False),
    )
    for call in calls:
        found = complete(call, values_recorded=True)
        assert found is not None
        assert found.name == "aten::convolution"
        assert found.outputs[0].shape == tuple(y.shape)
        assert found.outputs[0].is_channels_last == last
        assert found.args["groups"] == groups


def test_backward_makes_what_its_mask_asks_for() -> None:
    x, w = meta(2, 8, 14, 14), meta(12, 8, 3, 3)
    grad = real(x, w, 2, 1, 1)
    call = recorded(
        "aten::convolution_backward",
        grad,
        x,
        w,
        [0],
        [2, 2],
        [1, 1],
        [1, 1],
        False,
        [0, 0],
        1,
        [False, True, True],
    )
    found = complete(call, values_recorded=True)
    assert found is not None
    assert found.args["output_mask"] == (False, True, True)
    assert [t.shape for t in found.outputs] == [(12, 8, 3, 3), (12,)]


def test_a_call_without_options_takes_the_size_of_its_gradient() -> None:
    x, w = meta(2, 8, 14, 14), meta(12, 8, 3, 3)
    grad = real(x, w, 2, 1, 1)
    back = Op(0, "aten::cudnn_convolution_backward", inputs=(spec(x), spec(grad), spec(w)))
    call = Op(1, "aten::cudnn_convolution", inputs=(spec(x), spec(w)))
    assert complete(call, values_recorded=False) is None
    assert complete(call, values_recorded=True) is None
    found = forward_sized(call, output_sizes([back]))
    assert found is not None
    assert found.outputs[0].shape == tuple(grad.shape)
    # Two strides for the same shapes: nobody can tell which.
    other = Op(2, back.name, inputs=(spec(x), spec(real(x, w, 1, 1, 1)), spec(w)))
    assert forward_sized(call, output_sizes([back, other])) is None


def test_transposed_forward_calls_get_no_answer() -> None:
    x, w = meta(2, 8, 14, 14), meta(8, 12, 3, 3)
    call = recorded("aten::convolution", x, w, None, [2, 2], [1, 1], [1, 1], True, [0, 0], 1)
    assert complete(call, values_recorded=True) is None
