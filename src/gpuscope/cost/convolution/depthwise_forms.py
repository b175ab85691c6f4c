"""What kernels for depthwise convolutions take: formulas with constants of their own.

Most are

    floor + the longest of arithmetic, memory and one thread's chain of taps

where arithmetic is so many clocks of a multiprocessor for each result and for each tap that falls
inside the image, and a chain is that of a thread that walks the taps of one result one after the
other (what counts where few blocks run). Kernels written for 3 x 3 and 5 x 5 filters unroll that
walk and have constants of their own. Fitted to recorded kernels by `benchmarks/fit/depthwise.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

_SHARP = 3.0
"""Power of the norm that joins arithmetic, memory and chain: they overlap, but for the edges."""

HOT_SHARE = 0.6
"""What bytes cost that are in the L2, of what memory's would."""

_WARP = 32
_MOST_THREADS = 256
"""Of a block of ATen's weight gradient (`getGradParamsNumThreads` in DepthwiseConv2d.cu)."""

_THREADS_A_UNIT = 2048
_MOST_BLOCKS = 32

_SLICE_CHANNELS = 32
_MOST_SLICES = 8
_ENOUGH_BLOCKS = 400
"""cuDNN's weight gradient, channels last: a block has 32 channels of one image, or of a slice of
its rows until there are so many blocks."""


@dataclass(frozen=True, slots=True)
class Form:
    """Constants of one kernel.

    Attributes:
        floor_s: the shortest.
        cycles, tap_cycles: of a multiprocessor for each result, and for each tap of it.
        chain_cycles: a thread's for each tap.
        bandwidth_efficiency: of memory's bandwidth.
    """

    floor_s: float
    cycles: float
    tap_cycles: float
    chain_cycles: float
    bandwidth_efficiency: float


@dataclass(frozen=True, slots=True)
class WeightForm:
    """Constants of ATen's weight gradient.

    Attributes:
        floor_s: the shortest.
        step_cycles: a multiprocessor's for a step of a warp.
        chain_cycles: that a warp waits for a step.
        begin_cycles: that a block takes beside its steps.
    """

    floor_s: float
    step_cycles: float
    chain_cycles: float
    begin_cycles: float


def seconds(
    form: Form, results: float, taps: float, memory_s: float, cycle_s: float, clock_s: float
) -> tuple[float, float]:
    """Duration less floor, and its arithmetic alone, without memory.

    Args:
        form: constants.
        results: values that are computed.
        taps: of each, those inside the image.
        memory_s: bytes that are moved over the peak bandwidth.
        cycle_s: one clock over the number of multiprocessors.
        clock_s: one clock.
    """
    work = results * (form.cycles + form.tap_cycles * taps) * cycle_s
    compute = _joined(work, taps * form.chain_cycles * clock_s)
    return _joined(compute, memory_s / form.bandwidth_efficiency), compute


def _joined(*parts: float) -> float:
    return float(sum(part**_SHARP for part in parts) ** (1 / _SHARP))


@dataclass(frozen=True, slots=True)
class WalkForm:
    """Constants of cuDNN's data gradient for any filter over channels-last data.

    Attributes:
        floor_s: the shortest.
        cycles, row_cycles, tap_cycles: of a multiprocessor for each result, for each row of the
            filter and for each tap, whether it falls inside the image or not.
        wait_s: that a thread waits for a tap of its results.
        outside: share of it for a tap outside the image.
    """

    floor_s: float
    cycles: float
    row_cycles: float
    tap_cycles: float
    wait_s: float
    outside: float


_WALKED = 1024
"""Results of a block of 256 threads of that kernel."""

_RESIDENT_WALKS = 8


def walk_s(
    form: WalkForm, results: float, window: Sequence[int], within: float, units: int, cycle_s: float
) -> float:
    """Time of `dgrad2d_c1_k1_nhwc`, less its floor.

    Every tap is walked, row by row, strides and dilations do not matter: 158 recorded launches of
    windows from 1 x 3 to 31 x 31 follow this within 12 % in the median.

    Args:
        form: constants.
        results: values that are computed.
        window: sides of the filter.
        within: taps that fall inside the image, in the mean.
        units: multiprocessors.
        cycle_s: one clock over the number of multiprocessors.
    """
    taps = float(prod(window))
    each = form.cycles + form.row_cycles * window[0] + form.tap_cycles * taps
    rounds = ceil(ceil(results / _WALKED) / (units * _RESIDENT_WALKS))
    wait = rounds * (within + form.outside * (taps - within)) * form.wait_s
    return _joined(results * each * cycle_s, wait)


@dataclass(frozen=True, slots=True)
class WindowForm:
    """Constants of ATen's kernels for any window (`conv_depthwise2d_*_kernel_generic`).

    Attributes:
        floor_s: the shortest.
        cycles, row_cycles: of a multiprocessor for each result, and for each row of the filter.
        tap_cycles, outside_cycles: for each tap inside the image, and outside it.
        chain_cycles: that a thread waits for a tap.
        bandwidth_efficiency: of memory's bandwidth.
    """

    floor_s: float
    cycles: float
    row_cycles: float
    tap_cycles: float
    outside_cycles: float
    chain_cycles: float
    bandwidth_efficiency: float


_PASSED_OVER = 0.3
"""What a thread waits for a tap outside the image, of what it does for one inside."""

_WINDOW_BLOCK = 1024


def window_s(
    form: WindowForm,
    results: float,
    window: tuple[int, float, float],
    memory_s: float,
    units: int,
    cycle_s: float,
) -> tuple[float, float]:
    """Time of ATen's kernels for any window less their floor, and its arithmetic alone.

    203 recorded launches of an H200 (1 x 3 to 31 x 31) follow this within 10 % in the mean.

    Args:
        form: constants.
        results: values that are computed, a thread each.
        window: rows of the filter; taps inside the image in the mean, and all, each times the
            results of a channel where a gradient sums over those.
        memory_s: bytes that are moved over the peak bandwidth.
        units: multiprocessors.
        cycle_s: one clock over the number of multiprocessors.
    """
    rows, within, taps = window
    outside = taps - within
    each = form.cycles + form.row_cycles * rows
    each += form.tap_cycles * within + form.outside_cycles * outside
    rounds = ceil(ceil(results / _WINDOW_BLOCK) * _WINDOW_BLOCK / (units * _THREADS_A_UNIT))
    wait = rounds * (within + _PASSED_OVER * outside) * form.chain_cycles * cycle_s * units
    compute = _joined(results * each * cycle_s, wait)
    return _joined(compute, memory_s / form.bandwidth_efficiency), compute


def native_weight_s(
    form: WeightForm, images: int, positions: int, weights: int, units: int, clock_s: float
) -> float:
    """ATen's weight gradient, less its floor: a block a weight, a warp an image at a time.

    Args:
        form: constants.
        images, positions: of the result's gradient.
        weights: numbers of the filters' gradient.
        units: multiprocessors.
        clock_s: one clock.
    """
    warps = min(images, _MOST_THREADS // _WARP)
    steps = ceil(images / warps) * ceil(positions / _WARP)
    resident = min(_THREADS_A_UNIT // (warps * _WARP), _MOST_BLOCKS)
    issue = ceil(weights / units) * (warps * steps * form.step_cycles) * clock_s
    wait = ceil(weights / (units * resident)) * (steps * form.chain_cycles + form.begin_cycles)
    return _joined(issue, wait * clock_s)


def rows_weight_s(
    form: Form,
    images: int,
    channels: int,
    positions: int,
    taps: int,
    memory_s: float,
    cycle_s: float,
    clock_s: float,
) -> float:
    """cuDNN's weight gradient on 2-byte channels-last data, less its floor and its sum of slices.

    Args:
        form: constants; its chain is that of a block for each position and tap.
        images, channels, positions: of the result's gradient.
        taps: of a filter.
        memory_s, cycle_s, clock_s: as `seconds` takes them.
    """
    slices = slices_of(images, channels) / images
    work = images * channels * positions * (form.cycles + form.tap_cycles * taps) * cycle_s
    chain = ceil(positions / slices) * form.chain_cycles * (1 + taps / 30) * clock_s
    return _joined(work, chain, memory_s / form.bandwidth_efficiency)


def slices_of(images: int, channels: int) -> int:
    """Partial results that `rows_weight_s` leaves to be added up."""
    blocks = ceil(channels / _SLICE_CHANNELS) * images
    return images * min(max(_ENOUGH_BLOCKS // blocks, 1), _MOST_SLICES)


SUM_S = 2.5e-8
"""A partial result of the kernel that adds slices and images up (`wgrad2d_c1_k1_nhwc_reduce`: 1.7
µs for 32 of them, 16 µs for 423)."""


def inside(
    sizes_in: Sequence[int],
    sizes_out: Sequence[int],
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> float:
    """Taps of a result that fall inside the image, in the mean; sizes by dimension."""
    taps = 1.0
    for n, m, k, s, p, d in zip(
        sizes_in, sizes_out, window, stride, padding, dilation, strict=True
    ):
        hits = 0
        for tap in range(k):
            first = max(0, ceil((p - tap * d) / s))
            last = min(m - 1, (n - 1 + p - tap * d) // s)
            hits += max(0, last - first + 1)
        taps *= hits / max(m, 1)
    return taps
