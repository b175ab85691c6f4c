"""cuDNN's direct kernels for results and data gradients.

`conv2d_grouped_direct_kernel`, `dgrad2d_grouped_direct_kernel`: a thread sums one result over the
channels of its group and all taps, neighbouring threads work on neighbouring positions of one
channel, a block is 1,024 of them. Read off 40 recorded launches of an H200 (cuDNN 9.19; 1 to 27,000
blocks, channels first and last, 9 to 961 taps), whose blocks the number of results accounts for
without exception. As with the weight gradients' kernel (`direct`, whose lines and banks these
are):

* a warp's tap costs the arithmetic of its addresses or, with channels innermost, the lines that 32
  neighbouring positions lie in, two a clock, or the reads that meet in one bank of the L1, one
  after the other, whichever is longest; taps outside the image cost next to nothing;
* with channels innermost each result is written to a sector of its own;
* where few blocks run a thread waits for each of its loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from gpuscope.cost.convolution.direct import SHARP, lines, meeting
from gpuscope.cost.convolution.shape import ConvShape, Pass
from gpuscope.cost.convolution.stream import stream
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_BLOCK, _WARPS = 1024, 32
_RESIDENT = 2
"""Blocks of 1,024 threads on a multiprocessor."""


@dataclass(frozen=True, slots=True)
class ResultForm:
    """Constants of a kernel; cycles are of a multiprocessor and a warp.

    Attributes:
        floor_s: the shortest.
        begin_cycles: of a warp beside its taps.
        scatter_cycles: of a warp whose results lie channels apart.
        step_cycles: for the addresses of a tap.
        wait_cycles: that a thread waits for a tap.
    """

    floor_s: float
    begin_cycles: float
    scatter_cycles: float
    step_cycles: float
    wait_cycles: float


def direct_result_s(
    form: ResultForm,
    results: int,
    taps: tuple[float, float],
    tap_cycles: float,
    units: int,
    clock_s: float,
    scattered: bool,
) -> float:
    """Its time, less the floor.

    Args:
        form: constants.
        results: values that are computed.
        taps: of each, times the channels of a group: those inside the image, and all.
        tap_cycles: that a warp's tap costs for lines or banks.
        units: multiprocessors.
        clock_s: one clock.
        scattered: results lie channels apart.
    """
    within, whole = taps
    blocks = ceil(results / _BLOCK)
    each = max(form.step_cycles, tap_cycles)
    begin = form.begin_cycles + (form.scatter_cycles if scattered else 0.0)
    busy = max(blocks / units, 1.0) * _WARPS * (begin + within * each)
    waits = ceil(blocks / (units * _RESIDENT)) * whole * form.wait_cycles
    return float((busy**SHARP + waits**SHARP) ** (1 / SHARP)) * clock_s


def direct_result_total_s(
    work: Work, shape: ConvShape, which: Pass, inside: float, itemsize: float
) -> tuple[float, float]:
    """Floor and the rest of its time.

    Args:
        work: the operator.
        shape: its sizes.
        which: forward, or the data gradient.
        inside: taps of a result that fall inside the image, in the mean.
        itemsize: bytes of an element.
    """
    get = work.constants.value
    names = ("floor_s", "begin_cycles", "scatter_cycles", "step_cycles", "wait_cycles")
    form = ResultForm(
        *(get(f"convolution.direct.{which}.{n}", f"convolution.direct.result.{n}") for n in names)
    )
    forward = which == "forward"
    summed, made = shape.channels_in, shape.channels_out
    if not forward:
        summed, made = made, summed
    positions = shape.positions_out if forward else shape.positions_in
    channels = summed // shape.groups
    tap_cycles = max(
        get("convolution.direct.bank_cycles") * meeting(summed, itemsize, shape.channels_last),
        get("convolution.direct.line_cycles") * lines(summed, itemsize, shape.channels_last),
    )
    clock_s = 1.0 / work.clock_hz
    took = direct_result_s(
        form,
        shape.images * positions * made,
        (inside * channels, float(shape.taps * channels)),
        tap_cycles,
        work.units,
        clock_s,
        shape.channels_last,
    )
    return form.floor_s, took


def direct_result(
    work: Work,
    shape: ConvShape,
    which: Pass,
    inside: float,
    specs: tuple[TensorSpec, TensorSpec, TensorSpec],
) -> Kernel:
    """The kernel.

    Args:
        work: the operator.
        shape: its sizes.
        which: forward, or the data gradient.
        inside: taps of a result that fall inside the image, in the mean.
        specs: both operands and the result.
    """
    first, second, out = specs
    floor_s, took = direct_result_total_s(work, shape, which, inside, out.itemsize)
    name = "conv_fprop_direct" if which == "forward" else "conv_dgrad_direct"
    read = float(first.nbytes + second.nbytes)
    kernel = stream(work, name, read, out.nbytes, first.dtype, out.numel)
    duration = floor_s + max(took, kernel.memory_s)
    blocks = ceil(out.numel / _BLOCK)
    return kernel.lasting(
        duration,
        flops=shape.flops,
        compute_s=took,
        limiter="compute" if took > kernel.memory_s else "memory",
        kind="convolution",
        grid=blocks,
        block=_BLOCK,
        waves=blocks / (work.units * float(_RESIDENT)),
    )
