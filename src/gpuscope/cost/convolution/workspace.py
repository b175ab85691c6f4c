"""What cuDNN borrows for a convolution: copies of its tensors with channels innermost.

Tensor-core kernels read channels innermost. Channels-first tensors are copied (input, filter and
result of the pass), and rows that are no multiple of 16 bytes are padded, both in a workspace that
PyTorch takes from its allocator for the length of the call. Without tensor cores it is the other
way round. A filter of one tap is an ordinary product on the data as they lie and borrows nothing
but the partial sums of its gradient (`partial_bytes`), large volumes excepted; a depthwise one
borrows nothing, nor does one of few channels whose data are read as they lie. Gradients between
transforms keep what they transformed (`transformed`).

Read off an H200: of 1,094 passes drawn at random (validation/recordings/h200/micro/cases.jsonl.gz)
840 borrow this within 10 % of what they hold together. What is not known: which float32 passes are
Fourier transforms, and what a filter's gradient borrows for sums over slices.
"""

from __future__ import annotations

from math import ceil, prod

from gpuscope.cost.convolution.shape import ConvShape, conv_shape, gradients_asked
from gpuscope.cost.convolution.transformed import fourier, winograd, workspace_bytes
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

_TURNED_POSITIONS = 6000
"""Positions of a volume from which a one-tap filter's gradient is summed on copies with channels
last, as 10 of 12 recorded ones of several images."""

_SQUARES = 32
"""Channels from which 3 x 3 filters' gradients without tensor cores are Winograd's: 8 of 10."""


def convolution_bytes(op: Op, device: Device, tf32: bool = True) -> int:
    """Bytes that cuDNN borrows for a convolution, forward or backward; 0 for other operators.

    Args:
        op: any operator.
        device: its vendor decides: only cuDNN is known.
        tf32: whether float32 convolutions may use tensor cores; others work on data as they lie,
            channels first.
    """
    if device.vendor != "NVIDIA" or op.name not in _FORWARD | _BACKWARD:
        return 0
    if op.name in _FORWARD:
        x, weight = op.inputs[:2]
        y = op.outputs[0]
    else:
        y, x, weight = op.inputs[:3]
    if x.device != "device" or (x.itemsize > 2 and x.dtype != "float32"):
        return 0
    shape = conv_shape(op, x, weight, y)
    if shape.depthwise:
        return 0
    sums = _weights_bytes(op, shape, x, y, tf32)
    if sums is not None:
        return sums
    if x.itemsize > 2 and not tf32:
        return _strict_bytes(op, shape, (x, y, weight))
    if _as_it_lies(op, shape, x):
        return 0
    if shape.channels_last and x.itemsize > 2 and shape.channels_in < _WHOLE_CHANNELS:
        return int(x.nbytes) if op.name in _FORWARD else 0
    if shape.channels_last:
        return sum(_padded(t) for t in (x, y, weight) if _padded(t) > t.nbytes)
    return int(_padded(x) + _padded(y) + _padded(weight)) if _windowed(shape) else 0


def _weights_bytes(
    op: Op, shape: ConvShape, x: TensorSpec, y: TensorSpec, tf32: bool
) -> int | None:
    """Where the weights' gradient, or the lack of it, tells what is borrowed; None elsewhere."""
    wants = op.name in _BACKWARD and gradients_asked(op)[1]
    if shape.taps == 1 and shape.strides == 1 and shape.groups == 1:
        wide = min(shape.channels_in, shape.channels_out) > 1 < shape.images
        turned = len(x.shape) > 4 and wide and shape.positions_in >= _TURNED_POSITIONS
        if wants and turned and not shape.channels_last and (tf32 or x.itemsize <= 2):
            return int(_padded(x) + _padded(y))
        return partial_bytes(op, shape)
    if not wants:
        return None
    data, grad = (y, x) if op.args.get("transposed") else (x, y)
    found = fourier(op, shape, data, tf32)
    narrow = min(shape.channels_in, shape.channels_out) < _SQUARES
    if found is None and not tf32 and not narrow:
        found = winograd(op, shape, data, grad)
    if found is None:
        return None
    turned_bytes = x.nbytes + y.nbytes if shape.channels_last else 0
    return workspace_bytes(found, shape, grad) + int(turned_bytes)


def _strict_bytes(op: Op, shape: ConvShape, specs: tuple[TensorSpec, ...]) -> int:
    """Without tensor cores: copies with channels first, where they lie last.

    Few channels forward, and weights' gradients, have kernels that read them as they lie.
    """
    few = op.name in _FORWARD and shape.channels_in <= _WHOLE_CHANNELS
    data = op.name in _FORWARD or gradients_asked(op)[0]
    turned = shape.channels_last and shape.groups == 1 and data and not few
    return sum(int(t.nbytes) for t in specs) if turned else 0


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
    if op.name not in _BACKWARD or shape.channels_last or not gradients_asked(op)[1]:
        return 0
    x, weight = op.inputs[1:3]
    if shape.positions_in * x.itemsize % _COPY_BYTES:
        return 0
    return 4 * shape.images * weight.numel


def _windowed(shape: ConvShape) -> bool:
    return shape.positions_in > 1


def _padded(spec: TensorSpec) -> int:
    """Bytes with channels padded to whole copies of 16 bytes; filters' results likewise."""
    whole = _COPY_BYTES // spec.itemsize
    channels = ceil(spec.shape[1] / whole) * whole
    return int(spec.shape[0] * channels * prod(spec.shape[2:]) * spec.itemsize)
