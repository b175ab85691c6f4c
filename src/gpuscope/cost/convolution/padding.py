"""Channels whose rows are no multiple of 16 bytes: tensor-core kernels want them padded.

cuDNN pads the channels of each channels-last tensor with a kernel of its own
(`nhwcAddPaddingKernel`), of the result as well, and multiplies tiles of whole 64 channels.
Recorded on an H200 (`validation/recordings/h200/micro/odd_channels.csv.gz`): 257 channels took
two to three and a half times as long as 256. Fewer than 8 channels have a factor of their own in
`gpuscope.cost.convolution.model`, where padding is contained.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from gpuscope.cost.convolution.packed import NARROWEST, width
from gpuscope.cost.convolution.shape import ConvShape, Pass
from gpuscope.cost.convolution.stream import paced, stream
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_FEW = 8
"""Fewer channels are another case."""

_ROW_BYTES = 16
"""What the rows of an operand must be a multiple of."""

_TILE_CHANNELS = 64
"""Channels that kernels for padded tensors work on at a time."""


def is_odd(channels: int, itemsize: float) -> bool:
    """Whether channels-last rows of so many channels must be padded."""
    return channels >= _FEW and channels * itemsize % _ROW_BYTES != 0


def rounded(shape: ConvShape, itemsize: float) -> ConvShape:
    """The sizes that are multiplied: odd channels rounded up to whole tiles."""
    if shape.groups != 1:
        return shape

    def whole(channels: int) -> int:
        if not is_odd(channels, itemsize):
            return channels
        return ceil(channels / _TILE_CHANNELS) * _TILE_CHANNELS

    return replace(
        shape, channels_in=whole(shape.channels_in), channels_out=whole(shape.channels_out)
    )


def stepped(channels: int, itemsize: float, which: Pass = "forward") -> int:
    """Channels rounded up to whole steps of the main loop: 128 bytes, 64 where they suffice.

    Tiles of recorded kernels are 64 channels of two bytes deep, or 32 of four, some half of that.
    Fewer than 8 channels have a factor of their own forward; a data gradient takes a step for each
    tap however few the result's channels are (3 and 4 channels: 14 recorded passes).
    """
    if channels < _FEW and which == "forward":
        return channels
    step = int((64 if channels * itemsize <= 64 else 128) / itemsize)
    return ceil(channels / step) * step


def padding(work: Work, shape: ConvShape, specs: tuple[TensorSpec, ...]) -> list[Kernel]:
    """The kernels that pad (or strip) those of `specs` whose channels are odd.

    Args:
        work: the convolution.
        shape: its sizes.
        specs: channels-last tensors of one pass, the result included.
    """
    if shape.groups != 1:
        return []
    return [_pad(work, spec) for spec in specs if is_odd(spec.shape[1], spec.itemsize)]


def _pad(work: Work, spec: TensorSpec) -> Kernel:
    """One pass over a tensor: bound by elements for 2-byte ones, by bytes for larger."""
    step = int(_ROW_BYTES // spec.itemsize)
    channels = ceil(spec.shape[1] / step) * step
    elements = spec.shape[0] * channels * prod(spec.shape[2:])
    kernel = stream(
        work,
        "nhwc_pad_channels",
        spec.nbytes,
        elements * spec.itemsize,
        spec.dtype,
        elements,
        "convolution.pad",
    )
    return paced(work, kernel, elements, "pad")


def spread_groups(
    work: Work, shape: ConvShape, which: Pass, specs: tuple[TensorSpec, ...]
) -> list[Kernel]:
    """The kernels that lay the channels of each group out for tensor cores.

    cuDNN gives the groups of both activations one width (`packed.width`), and the weights too:
    one pass a tensor that is not so wide (`tensorTransformGeneric`, always 264 blocks), which takes
    as long as what it lays out, the zeros between with it (13 recorded calls of 1 to 600 million
    values: 140 to 280 a nanosecond; to the narrowest groups 320 in the median of 74). Groups of one
    such width stay where they are: 8 x 8, 16 x 16 and 64 x 64 channels launch none in 40 recorded
    calls, 24 x 40 three, 4 x 16 two; but for channels whose rows are no multiple of 16 bytes.
    Channels first, the conversion of the activations does it on the way
    (`gpuscope.cost.convolution.convert`).

    Args:
        work: the convolution.
        shape: its sizes.
        which: the pass.
        specs: its two operands and its result.
    """
    own = (shape.channels_in // shape.groups, shape.channels_out // shape.groups)
    whole = width(shape)
    # In the order of `specs`: the channels of a group, the weights' told apart.
    weights = 2 if which == "weight_gradient" else 1
    x, y = own
    of = {"forward": (x, 0, y), "data_gradient": (y, 0, x), "weight_gradient": (y, x, 0)}[which]
    filters = shape.groups * whole * whole * shape.taps
    return [
        _spread(work, spec, filters if at == weights else spec.numel // one * whole, whole)
        for at, (spec, one) in enumerate(zip(specs, of, strict=True))
        if (at == weights and own != (whole, whole))
        or (at != weights and shape.channels_last and (one != whole or _is_ragged(spec)))
    ]


def _is_ragged(spec: TensorSpec) -> bool:
    """Whether a pixel's channels are no multiple of a copy."""
    return spec.shape[1] * spec.itemsize % _ROW_BYTES != 0


def _spread(work: Work, spec: TensorSpec, elements: int, whole: int) -> Kernel:
    """One pass that leaves so many elements, or reads them where it takes them back."""
    kernel = stream(
        work,
        "spread_groups",
        spec.nbytes,
        elements * spec.itemsize,
        spec.dtype,
        elements,
        "convolution.spread",
    )
    key = "spread.narrow" if whole == NARROWEST else "spread"
    return paced(work, kernel, elements, key, work.constants.value("convolution.spread.base_s"))
