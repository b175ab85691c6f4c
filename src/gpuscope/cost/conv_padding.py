"""Channels whose rows are no multiple of 16 bytes: tensor-core kernels want them padded.

cuDNN pads the channels of each channels-last tensor with a kernel of its own
(`nhwcAddPaddingKernel`), of the result as well, and multiplies tiles of whole 64 channels.
Recorded on an H200 (`validation/recordings/h200/micro/odd_channels.csv.gz`): 257 channels took
two to three and a half times as long as 256. Fewer than 8 channels have a factor of their own in
`gpuscope.cost.convolution`, where padding is contained.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from gpuscope.cost.conv_depthwise import stream
from gpuscope.cost.conv_shape import ConvShape
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
        work, "nhwc_pad_channels", spec.nbytes, elements * spec.itemsize, spec.dtype, elements,
        "convolution.pad",
    )  # fmt: skip
    if work.device.clock_hz is None:
        return kernel
    a_clock = work.constants.get("convolution.pad.elements_per_clock_per_unit", 1.6)
    elements_s = elements / (a_clock * work.device.clock_hz * work.units)
    more_s = max(elements_s - kernel.memory_s, 0.0)
    scale = 1.0 + more_s / kernel.duration_s
    return replace(
        kernel, duration_s=kernel.duration_s * scale, low_s=kernel.low_s * scale,
        high_s=kernel.high_s * scale, compute_s=elements_s,
    )  # fmt: skip
