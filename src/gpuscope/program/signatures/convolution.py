"""Convolutions: forward passes of each backend, and backward passes of today's and 2021's torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpuscope.program.signatures.call import Call, Made, channels_last, dense, rule
from gpuscope.program.types import Op, TensorSpec

_STRIDE_PADDING_DILATION = {
    "convolution": (3, 4, 5),
    "_convolution": (3, 4, 5),
    "convolution_overrideable": (3, 4, 5),
    "cudnn_convolution": (3, 2, 4),
    "cudnn_convolution_relu": (3, 4, 5),
    "cudnn_convolution_add_relu": (5, 6, 7),
    "miopen_convolution": (4, 3, 5),
    "miopen_depthwise_convolution": (4, 3, 5),
    "_slow_conv2d_forward": (4, 5, 99),
    "thnn_conv2d_forward": (4, 5, 99),
    "_conv_depthwise2d": (4, 5, 6),
    "conv_depthwise3d": (4, 5, 6),
    "slow_conv3d_forward": (4, 5, 99),
    "slow_conv_dilated2d": (4, 5, 6),
}
"""Positions of stride, padding and dilation in each schema."""


def _spread(values: list[int] | None, dims: int, default: int) -> list[int] | None:
    if values is None or not values:
        return [default] * dims
    if len(values) == 1:
        return values * dims
    return values if len(values) == dims else None


def _laid_out(shape: tuple[int, ...], *like: TensorSpec) -> TensorSpec:
    if any(t.is_channels_last for t in like):
        return channels_last(shape, like[0].dtype)
    return dense(shape, dtype=like[0].dtype)


@rule(*_STRIDE_PADDING_DILATION)
def forward(call: Call) -> Made | None:
    """x [N, C, ...], weight [C_out, C / groups, ...], bias; the output's size needs the options."""
    if len(call.tensors) < 2 or not call.texts:
        return None
    x, weight = call.tensors[:2]
    dims = len(x.shape) - 2
    if dims < 1 or len(weight.shape) != len(x.shape) or not weight.shape[1]:
        return None
    if call.name in ("convolution", "_convolution") and call.flag(6):
        return None  # transposed ones: the output's size has another rule
    at = _STRIDE_PADDING_DILATION[call.name]
    stride = _spread(call.integers(at[0]), dims, 1)
    padding = _spread(call.integers(at[1]), dims, 0)
    dilation = _spread(call.integers(at[2]), dims, 1)
    if stride is None or padding is None or dilation is None or not all(stride):
        return None
    sizes = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(
            x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True
        )
    ]
    if min(sizes) < 1:
        return None
    out = _laid_out((x.shape[0], weight.shape[0], *sizes), x, weight)
    bias = [t for t in call.tensors[2:3] if len(t.shape) == 1]
    args = {"groups": x.shape[1] // weight.shape[1], "stride": tuple(stride)}
    return Made("aten::convolution", (x, weight, *bias), (out,), args)


Sizes = Mapping[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]]
"""Output shape of a convolution by the shapes of its input and weight."""

_GRADIENT_FIRST = ("convolution_backward", "convolution_backward_overrideable")
_INPUT_FIRST = (
    "cudnn_convolution_backward",
    "miopen_convolution_backward",
    "miopen_depthwise_convolution_backward",
)


def output_sizes(ops: Iterable[Op]) -> Sizes:
    """Read output shapes off the backward calls of a recording, where only one fits.

    Traces of 2021 hold no strides or paddings of forward calls, but the gradient of the output
    has the output's shape.
    """
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], set[tuple[int, ...]]] = {}
    for op in ops:
        short = op.name.rpartition("::")[2]
        if short not in (*_GRADIENT_FIRST, *_INPUT_FIRST) or len(op.inputs) < 3:
            continue
        first, second, weight = op.inputs[:3]
        grad, x = (first, second) if short in _GRADIENT_FIRST else (second, first)
        found.setdefault((x.shape, weight.shape), set()).add(grad.shape)
    return {key: shapes.pop() for key, shapes in found.items() if len(shapes) == 1}


def forward_sized(op: Op, sizes: Sizes) -> Op | None:
    """Complete a forward call whose options were not recorded; None if no backward call tells."""
    if op.name.rpartition("::")[2] not in _STRIDE_PADDING_DILATION or len(op.inputs) < 2:
        return None
    x, weight = op.inputs[:2]
    shape = sizes.get((x.shape, weight.shape))
    ordinary = shape is not None and len(weight.shape) > 2 and shape[1] == weight.shape[0]
    if shape is None or not ordinary or not weight.shape[1]:
        return None
    args = {"groups": x.shape[1] // weight.shape[1]}
    return replace(
        op,
        name="aten::convolution",
        inputs=(x, weight),
        outputs=(_laid_out(shape, x, weight),),
        args=args,
    )


@rule(*_GRADIENT_FIRST)
def backward(call: Call) -> Made | None:
    """grad, x, weight, bias_sizes, stride, padding, dilation, transposed, .., groups, mask."""
    if len(call.tensors) < 3:
        return None
    grad, x, weight = call.tensors[:3]
    mask = call.value(10)
    return _backward(grad, x, weight, mask, bool(call.flag(7)), call.integers(4))


@rule(*_INPUT_FIRST)
def library_backward(call: Call) -> Made | None:
    """x, grad, weight, then the options: as torch recorded them until 2021 (and MIOpen since)."""
    if len(call.tensors) < 3:
        return None
    x, grad, weight = call.tensors[:3]
    last = len(call.texts) - 1 if call.texts else 99
    return _backward(grad, x, weight, call.value(last), False, call.integers(4))


def _backward(
    grad: TensorSpec,
    x: TensorSpec,
    weight: TensorSpec,
    mask: object,
    transposed: bool,
    stride: list[int] | None,
) -> Made | None:
    if not len(grad.shape) == len(x.shape) == len(weight.shape) >= 3 or not weight.shape[1]:
        return None
    if grad.shape[0] != x.shape[0]:
        return None
    channels = grad.shape[1] if transposed else x.shape[1]
    wants = [True, True, False]
    if isinstance(mask, list) and len(mask) == 3:
        wants = [bool(m) for m in mask]
    outputs = [
        _laid_out(t.shape, t) for t, wanted in zip((x, weight), wants, strict=False) if wanted
    ]
    if wants[2]:
        outputs.append(dense((grad.shape[1],), dtype=grad.dtype))
    args: dict[str, object] = {
        "groups": channels // weight.shape[1],
        "transposed": transposed,
        "output_mask": tuple(wants),
        "stride": tuple(stride or ()),
    }
    return Made("aten::convolution_backward", (grad, x, weight), tuple(outputs), args)
