"""cuDNN's weight gradients in float32 that tiles of positions add up (`wgrad_alg0_engine`).

A block of 64 threads works out 32 x 32 weights (input channels x taps by output channels) for up to
512 positions of one image, and adds them to the gradient in memory, which is set to zero first. It
works on the vector lanes, also where tensor cores are allowed. Its grid is so in 119 of 119
recorded launches of an H200 (cuDNN 9.19); its time, of 85 with channels first (1 to 885 blocks a
multiprocessor), in the mean within 10 %, and within 11 % of those that took no part (by a hash):

* a multiprocessor's clocks for every block's position, the more the more rows of the input a tile
  reads (a row a channel: taps share one) and the fewer neighbouring tiles find them in a cache:
  the root of the product of both is what fits;
* what a block begins and adds up with;
* a block's own walk, where few run: 70 clocks a position;
* additions to one weight, of every block of positions, one after the other.

With tensor cores it is taken for few calls, and slow there: 605 µs for 80 input channels where a
matrix product takes 64 for 64. Of filters of one tap over signals of one dimension all 6 recorded
ones of up to 96 input channels that are no multiple of 64 have it, none of 17 others; of pictures 1
of 61, and none of 27 of models that the rule was not read off. Strided filters and those of several
taps have it at times, of up to 4 input channels mostly: for them no rule is known.
"""

from __future__ import annotations

from math import ceil, sqrt

from gpuscope.cost.convolution.shape import ConvShape
from gpuscope.cost.convolution.stream import stream
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_CLOCK_HZ = 1.5e9
"""Where a device states none."""

_SIDE, _POSITIONS = 32, 512
_THREADS, _RESIDENT = 64, 16
_MOST_CHANNELS, _WHOLE = 96, 64

_SHARP = 4.0
"""Power of the norm that joins what bounds it."""


def adds_tiles(work: Work, shape: ConvShape, dtype: str, activation: TensorSpec) -> bool:
    """Whether a weight gradient on tensor cores is left to it.

    Args:
        work: the convolution.
        shape: its sizes.
        dtype: that it is computed in.
        activation: the input, or the result's gradient.
    """
    if dtype != "tf32" or shape.groups > 1 or shape.channels_last:
        return False
    signal = len(activation.shape) == 3 or (
        len(activation.shape) == 4 and activation.shape[2] == 1 < activation.shape[3]
    )
    narrow = shape.channels_in <= _MOST_CHANNELS and shape.channels_in % _WHOLE > 0
    plain = signal and shape.taps == 1 and shape.strides == 1
    return plain and narrow and work.device.vendor == "NVIDIA"


def grid(shape: ConvShape) -> tuple[int, int, int]:
    """Its blocks: tiles of inputs and taps, of output channels, and blocks of positions."""
    columns, rows = ceil(shape.channels_in * shape.taps / _SIDE), ceil(shape.channels_out / _SIDE)
    return columns, rows, shape.images * ceil(shape.positions_out / _POSITIONS)


def tiles_s(work: Work, shape: ConvShape) -> float:
    """Its time, less the floor.

    Args:
        work: the convolution.
        shape: its sizes, without groups.
    """
    get = work.constants.value
    across, down, deep = grid(shape)
    clock_s = 1.0 / (work.device.clock_hz or _CLOCK_HZ)
    positions = shape.positions_out / ceil(shape.positions_out / _POSITIONS)
    channels = max(min(shape.channels_in * shape.taps / across, _SIDE) / shape.taps, 1.0)
    first_read = channels / down + min(shape.channels_out / down, _SIDE) / across
    position = get("convolution.tiles.position_cycles") + get("convolution.tiles.row_cycles") * (
        sqrt(channels * first_read)
    )
    begin = get("convolution.tiles.begin_cycles")
    busy = across * down * deep / work.units * (begin + positions * position)
    walk = get("convolution.tiles.alone_cycles") + get("convolution.tiles.wait_cycles") * min(
        shape.positions_out, _POSITIONS
    )
    adds = deep * get("convolution.tiles.add_cycles")
    return float((busy**_SHARP + walk**_SHARP + adds**_SHARP) ** (1 / _SHARP)) * clock_s


def tiles_gradient(
    work: Work, shape: ConvShape, specs: tuple[TensorSpec, TensorSpec, TensorSpec]
) -> list[Kernel]:
    """Its kernels for channels-first data, without groups.

    Args:
        work: the operator.
        shape: its sizes.
        specs: both operands and the weights' gradient.
    """
    first, second, out = specs
    took = tiles_s(work, shape)
    duration = work.constants.value("convolution.tiles.floor_s") + took
    across, down, deep = grid(shape)
    blocks = across * down * deep
    read = float(first.nbytes + second.nbytes)
    kernel = stream(work, "conv_wgrad_tiles", read, out.nbytes, first.dtype, out.numel)
    main = kernel.lasting(
        duration,
        flops=shape.flops,
        compute_s=took,
        memory_s=min(kernel.memory_s, took),
        limiter="compute",
        kind="convolution",
        grid=blocks,
        block=_THREADS,
        waves=blocks / (work.units * float(_RESIDENT)),
    )
    return [stream(work, "zero_gradient", 0.0, out.nbytes, out.dtype, out.numel), main]
