"""Weights' gradients between transforms, Winograd's or Fourier's: cuDNN's kernels of float32.

Both cut the input and the result's gradient into pieces, transform every piece of every channel,
multiply the transformed point by point (a product of channels by channels over all pieces of all
images, as many as a piece has points), and transform the product back into the weights:

* Winograd (`winograd_nonfused`): results in squares of 4, (4 + 3 - 1)^2 = 36 points;
* Fourier (`fft2d_r2c`): one piece an image, 16, 32 or 64 a side, of which half and one column are
  kept (16 x 9, 32 x 17, 64 x 33 complex points); the gradient is flipped first, and pieces of 64
  are laid out anew around the product.

What is between the transforms lies in a workspace, as exactly as recorded: Fourier's is held twice.
The product is an ordinary batched one of float32, whose planned times are within 15 % of 32
recorded Winograd ones on an H200 (cuDNN 9.19).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from gpuscope.cost.convolution.shape import ConvShape
from gpuscope.cost.convolution.stream import stream
from gpuscope.cost.matmul.gemm import Problem, machine_for, plan
from gpuscope.cost.matmul.model import gemm_kernels
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import Op, TensorSpec

_FLOAT = 4
_RESULTS = 4
"""Results of a side that a Winograd piece is for."""

_SIDES = (16, 32, 64)
"""Of the pieces that Fourier transforms are there for."""

_MANY_IMAGES, _MANY_IMAGES_FLOAT, _SMALLEST = 128, 96, 8
_WIDEST = 40
"""Side of an image with its padding, at most: of 33 it is transformed, of 58 not (ResNet-34's)."""

_FOURIER_IN, _FOURIER_OUT = range(16, 129), range(12, 65)
"""Channels of the convolutions that are transformed so."""

_LAID_OUT = 64
"""Side of the pieces that are laid out anew around the product."""

_BLOCK_SIDE, _LANES, _WARPS = 32, 32, 64
_WIDE_WARPS, _SLOW = 28, 4


@dataclass(frozen=True, slots=True)
class Transform:
    """What a weights' gradient is between the transforms.

    Attributes:
        points: of a piece, each of which is a product.
        parts: numbers of a point: 1 real, 2 complex.
        pieces: of all images.
        side: of a Fourier piece; 0 for Winograd.
    """

    points: int
    parts: int
    pieces: int
    side: int = 0

    def between_bytes(self, shape: ConvShape) -> tuple[int, int, int]:
        """Bytes between the transforms of one group: input, result's gradient, weights'."""
        c, k = shape.channels_in // shape.groups, shape.channels_out // shape.groups
        each = self.points * self.parts * _FLOAT
        return each * self.pieces * c, each * self.pieces * k, each * c * k


def winograd(op: Op, shape: ConvShape, data: TensorSpec, grad: TensorSpec) -> Transform | None:
    """Winograd's transform of a gradient of 3 x 3 filters; None for others.

    Those of 5 x 5 were taken in 2 of 24 recorded passes, and cost more than their bytes.

    Args:
        op: the gradient's operator.
        shape: its sizes.
        data: the tensor that the filters walk over.
        grad: the other one.
    """
    if not _is_plain(op, shape, data) or shape.taps != 9 or data.shape[2] == 1:
        return None
    tiles = ceil(grad.shape[2] / _RESULTS) * ceil(grad.shape[3] / _RESULTS)
    return Transform((_RESULTS + 2) ** 2, 1, shape.images * tiles)


def fourier(op: Op, shape: ConvShape, data: TensorSpec, tf32: bool) -> Transform | None:
    """Fourier's transform where cuDNN takes it; None elsewhere.

    Batches of many small images, of few channels: 6 of 7 recorded passes with TF32 and the 2
    without, and no other of 3 x 3 filters of 90. It is taken where other kernels would be quicker
    by two to four times.

    Args:
        op: the gradient's operator.
        shape: its sizes.
        data: the tensor that the filters walk over.
        tf32: whether tensor cores may be used.
    """
    if not _is_plain(op, shape, data) or shape.taps != 9 or shape.channels_last:
        return None
    many = shape.images >= (_MANY_IMAGES if tf32 else _MANY_IMAGES_FLOAT)
    few = shape.channels_in in _FOURIER_IN and shape.channels_out in _FOURIER_OUT
    if not (many and few) or min(data.shape[2:]) < _SMALLEST:
        return None
    pads = op.args.get("padding")
    pad = max((p for p in pads if isinstance(p, int)), default=0) if isinstance(pads, tuple) else 0
    reach = max(data.shape[2:]) + 2 * pad
    side = next((n for n in _SIDES if n >= reach), None) if reach <= _WIDEST else None
    return None if side is None else Transform(side * (side // 2 + 1), 2, shape.images, side)


def _is_plain(op: Op, shape: ConvShape, data: TensorSpec) -> bool:
    """Whether a convolution of images in float32 has neither groups nor steps."""
    steps = op.args.get("dilation", ())
    dense = all(n == 1 for n in steps) if isinstance(steps, (tuple, list)) else True
    whole = shape.groups == 1 and shape.strides == 1 and len(data.shape) == 4
    return whole and dense and data.dtype == "float32"


def workspace_bytes(transform: Transform, shape: ConvShape, grad: TensorSpec) -> int:
    """Bytes that it borrows.

    Args:
        transform: which.
        shape: the convolution's sizes.
        grad: the result's gradient, flipped for Fourier's.
    """
    data_bytes, grad_bytes, out_bytes = transform.between_bytes(shape)
    if not transform.side:
        return data_bytes + grad_bytes + out_bytes
    return 2 * (data_bytes + grad_bytes) + grad.numel * _FLOAT // shape.groups


def transformed_gradient(
    work: Work,
    shape: ConvShape,
    transform: Transform,
    specs: tuple[TensorSpec, TensorSpec, TensorSpec],
) -> list[Kernel]:
    """Its kernels for channels-first data, group after group.

    Args:
        work: the operator.
        shape: its sizes.
        transform: which.
        specs: result's gradient, the tensor that the filters walk over, the weights' gradient.
    """
    grad, data, out = specs
    groups = shape.groups
    key = "convolution.fourier" if transform.side else "convolution.stream"
    name = "fft2d" if transform.side else "winograd"
    data_bytes, grad_bytes, out_bytes = transform.between_bytes(shape)

    def moved(label: str, read: float, written: float, by: str = key) -> Kernel:
        return stream(work, label, read, written, "float32", int(max(read, written) / _FLOAT), by)

    kernels = [
        moved(f"{name}_data", data.nbytes / groups, data_bytes),
        moved(f"{name}_gradient", grad.nbytes / groups, grad_bytes),
        *_product(work, shape, transform),
        moved(f"{name}_weights", out_bytes, out.nbytes / groups),
    ]
    if transform.side:
        kernels.insert(0, _flipped(work, grad, groups))
    if transform.side == _LAID_OUT:
        for size in (data_bytes, grad_bytes, out_bytes):
            kernels.append(moved("fft2d_lay_out", size, size, "convolution.stream"))
    return kernels * groups


def _product(work: Work, shape: ConvShape, transform: Transform) -> tuple[Kernel, ...]:
    """The products of all points; complex ones are real ones twice as wide and twice as deep."""
    c, k = shape.channels_in // shape.groups, shape.channels_out // shape.groups
    data_bytes, grad_bytes, out_bytes = transform.between_bytes(shape)
    problem = Problem(
        m=k,
        n=c * transform.parts,
        k=transform.pieces * transform.parts,
        batch=transform.points,
        dtype="float32",
        a_bytes=float(grad_bytes),
        b_bytes=float(data_bytes),
        c_bytes=float(out_bytes),
        item_bytes=_FLOAT,
        out_bytes=_FLOAT,
        layout="NT",
        whole=True,
    )
    machine = machine_for(work.device, work.constants, "float32", "matmul")
    found = plan(problem, machine)
    name = f"conv_wgrad_points_{found.tile.name}"
    return gemm_kernels(work, problem, machine, found, name, "convolution", "matmul")


def _flipped(work: Work, grad: TensorSpec, groups: int) -> Kernel:
    """The gradient turned round: a block a plane, a thread a number, up to 32 x 32 at a time.

    A block lasts as long whatever it holds, so that those count that multiprocessors hold at once;
    of more than 28 warps it lasts four times as long (30 recorded launches).
    """
    get = work.constants.value
    size, (height, width) = grad.nbytes / groups, grad.shape[2:]
    planes = grad.shape[0] * grad.shape[1] // groups
    warps = ceil(min(height, _BLOCK_SIDE) * min(width, _BLOCK_SIDE) / _LANES)
    passes = ceil(height / _BLOCK_SIDE) * ceil(width / _BLOCK_SIDE)
    slow = _SLOW if warps > _WIDE_WARPS else 1
    each_s = get("convolution.flip.block_s") * passes * slow / (_WARPS // warps * work.units)
    took = planes * max(each_s, get("convolution.flip.begin_s"))
    kernel = stream(work, "flip_filter", size, size, grad.dtype, int(size / _FLOAT))
    duration_s = get("convolution.stream.floor_s") + max(took, kernel.memory_s)
    return kernel.lasting(duration_s, compute_s=took)
