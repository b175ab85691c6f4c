"""What cuDNN borrows for a convolution: copies of its tensors with channels innermost.

Tensor-core kernels read channels innermost. Channels-first tensors are copied (input, filter and
result of the pass), and 2-byte tensors of fewer than 8 channels are padded to 8, both in a
workspace that PyTorch takes from its allocator for the length of the call. A filter of one tap
over images is an ordinary product on the data as they lie and borrows nothing but the partial sums
of its gradient (`partial_bytes`); a depthwise one borrows nothing, nor does one of few channels
whose data are read as they lie.

Read off an H200, 72 passes (`validation/recordings/h200/micro/memory.csv.gz`): of the 24 channels-
first passes with a window, 18 borrow this within 10 % and 21 within 20 %; one borrows half, one
nothing, one (float32, 320 channels, the filter's gradient) more than twice as much. What the
filter's gradient borrows beyond, 2 to 19 MB, is left out.
"""

from __future__ import annotations

from math import prod

from gpuscope.cost.convolution.shape import ConvShape, conv_shape
from gpuscope.hardware import Device
from gpuscope.program.types import Op, TensorSpec

_FORWARD = frozenset({"aten::convolution", "aten::_convolution", "aten::cudnn_convolution"})
_BACKWARD = frozenset({"aten::convolution_backward"})
_WHOLE_CHANNELS = 8
"""Channels of 2 bytes that one 16-byte copy holds."""

_SMALL_FILTER = 16
"""Taps that the kernels of few channels are taken for."""

_COPY_BYTES = 16
"""Positions of an image must fill such copies for a plain product of it."""


def convolution_bytes(op: Op, device: Device, tf32: bool = True) -> int:
    """Bytes that cuDNN borrows for a convolution, forward or backward; 0 for other operators.

    Args:
        op: any operator.
        device: its vendor decides: only cuDNN is known.
        tf32: whether float32 convolutions may use tensor cores; others work on data as they lie.
    """
    if device.vendor != "NVIDIA" or op.name not in _FORWARD | _BACKWARD:
        return 0
    if op.name in _FORWARD:
        x, weight = op.inputs[:2]
        y = op.outputs[0]
    else:
        y, x, weight = op.inputs[:3]
    if x.device != "device" or (x.itemsize > 2 and not (tf32 and x.dtype == "float32")):
        return 0
    shape = conv_shape(op, x, weight, y)
    if shape.depthwise:
        return 0
    if shape.taps == 1 and shape.strides == 1 and shape.groups == 1 and len(x.shape) < 5:
        return partial_bytes(op, shape)
    if _as_it_lies(op, shape, x):
        return 0
    if shape.channels_last and x.itemsize > 2:
        few = shape.channels_in // shape.groups < _WHOLE_CHANNELS
        return int(x.nbytes) if few and op.name in _FORWARD else 0
    if shape.channels_last:
        return sum(_padded(t) for t in (x, y) if _padded(t) > t.nbytes)
    return int(_padded(x) + _padded(y) + weight.nbytes) if _windowed(shape) else 0


def _as_it_lies(op: Op, shape: ConvShape, x: TensorSpec) -> bool:
    """Few channels first, a small filter: kernels on the vector lanes read them as they lie.

    The forward pass, and TF32's gradients: 24 of 28 such passes of `micro/cases.jsonl.gz` borrow
    nothing.
    """
    few = shape.channels_in // shape.groups < _WHOLE_CHANNELS and len(x.shape) < 5
    direct = x.itemsize > 2 or (op.name in _FORWARD and len(x.shape) == 4)
    return few and direct and not shape.channels_last and shape.taps <= _SMALL_FILTER


def partial_bytes(op: Op, shape: ConvShape) -> int:
    """Of a filter of one tap over channels-first data: its gradient in float32, once an image.

    One product an image leaves it, and a kernel of its own adds them up: 16 images of 256 x 64
    channels borrowed just 1 MiB in float32 and in bfloat16, 4,096 of 4,992 x 128 10.5 GB.
    """
    mask = op.args.get("output_mask")
    wants = not isinstance(mask, (list, tuple)) or (len(mask) > 1 and bool(mask[1]))
    if op.name not in _BACKWARD or shape.channels_last or not wants:
        return 0
    x, weight = op.inputs[1:3]
    if shape.positions_in * x.itemsize % _COPY_BYTES:
        return 0
    return 4 * shape.images * weight.numel


def _windowed(shape: ConvShape) -> bool:
    return shape.positions_in > 1


def _padded(spec: TensorSpec) -> int:
    """Bytes with the channels of 2-byte tensors padded to what one copy holds."""
    channels = spec.shape[1]
    if spec.itemsize == 2 and channels < _WHOLE_CHANNELS:
        return int(spec.shape[0] * _WHOLE_CHANNELS * prod(spec.shape[2:]) * spec.itemsize)
    return int(spec.nbytes)
