"""cuDNN's direct kernel for weight gradients (`wgrad2d_grouped_direct_kernel`).

A warp sums one weight over all images and positions, 32 positions a step; a block is 8 warps. What
a step costs is, read off 39 recorded launches of an H200 (cuDNN 9.19; 16 to 3,000 blocks, 1 to
6,300 steps, channels first and last, groups of 1 to 224 channels):

* the arithmetic of its addresses, of every warp on a multiprocessor one after the other;
* with channels innermost, 32 positions lie a pixel's channels apart, each in a line of its own, of
  which the L1 finds two a clock; as many of them as have the greatest divisor in common with its
  32 banks meet in one bank and are read one after the other, 32 of 32 where channels are a
  multiple of 32;
* what one warp waits for its loads, where few blocks run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, gcd

from gpuscope.cost.convolution.shape import ConvShape
from gpuscope.cost.convolution.stream import stream
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_WEIGHTS = 8
"""Weights of a block, a warp each."""

_LANES = 32
_BANK_BYTES = 4
_LINE_BYTES = 128
_RESIDENT = 8
"""Blocks of 256 threads on a multiprocessor."""

SHARP = 4.0
"""Power of the norm that joins throughput and waiting."""


@dataclass(frozen=True, slots=True)
class DirectForm:
    """Constants of the kernel.

    Attributes:
        floor_s: the shortest.
        begin_cycles: of a block beside its steps.
        step_cycles: of a multiprocessor for the addresses of a warp's step.
        bank_cycles: for one of the reads that meet in a bank.
        line_cycles: for a line that is read.
        wait_cycles: that a warp waits for a step.
    """

    floor_s: float
    begin_cycles: float
    step_cycles: float
    bank_cycles: float
    line_cycles: float
    wait_cycles: float


def meeting(channels: int, itemsize: float, channels_last: bool) -> int:
    """How many of 32 neighbouring positions of a channel lie in one bank of the L1."""
    words = int(channels * itemsize // _BANK_BYTES)
    return gcd(words, _LANES) if channels_last and words else 1


def lines(channels: int, itemsize: float, channels_last: bool) -> float:
    """Lines that 32 neighbouring positions of a channel lie in."""
    apart = channels * itemsize if channels_last else itemsize
    return min(apart / _LINE_BYTES, 1.0) * _LANES


def direct_weight_s(
    form: DirectForm,
    positions: int,
    weights: int,
    reads: float,
    read_lines: float,
    units: int,
    clock_s: float,
) -> float:
    """Its time, less the floor.

    Args:
        form: constants.
        positions: of the result's gradient, those of all images.
        weights: numbers of the filters' gradient.
        reads: one after the other of a step, of both operands (see `meeting`), the input's times
            the share of taps that fall inside it.
        read_lines: of a step, of both operands likewise (see `lines`).
        units: multiprocessors.
        clock_s: one clock.
    """
    blocks, steps = ceil(weights / _WEIGHTS), ceil(positions / _LANES)
    each = max(form.step_cycles, form.bank_cycles * reads, form.line_cycles * read_lines)
    step = _WEIGHTS * each
    busy = ceil(blocks / units) * (form.begin_cycles + steps * step)
    waits = ceil(blocks / (units * _RESIDENT)) * (form.begin_cycles + steps * form.wait_cycles)
    return float((busy**SHARP + waits**SHARP) ** (1 / SHARP)) * clock_s


def direct_gradient_s(
    work: Work, shape: ConvShape, inside: float, itemsize: float, channels_last: bool
) -> tuple[float, float]:
    """Floor and the rest of its time for a convolution's weights.

    Args:
        work: the operator.
        shape: its sizes.
        inside: taps of a result that fall inside the image, in the mean.
        itemsize: bytes of an element.
        channels_last: how its operands lie.
    """
    get = work.constants.value
    names = ("floor_s", "begin_cycles", "step_cycles", "bank_cycles", "line_cycles", "wait_cycles")
    form = DirectForm(*(get(f"convolution.direct.{n}") for n in names))
    share = inside / shape.taps
    reads, read_lines = (
        of(shape.channels_out, itemsize, channels_last)
        + of(shape.channels_in, itemsize, channels_last) * share
        for of in (meeting, lines)
    )
    weights = shape.channels_out * shape.channels_in // shape.groups * shape.taps
    positions = shape.images * shape.positions_out
    clock_s = 1.0 / work.clock_hz
    took = direct_weight_s(form, positions, weights, reads, read_lines, work.units, clock_s)
    return form.floor_s, took


def direct_gradient(
    work: Work, shape: ConvShape, specs: tuple[TensorSpec, TensorSpec, TensorSpec]
) -> Kernel:
    """The kernel for channels-first data, or for groups.

    Args:
        work: the operator.
        shape: its sizes.
        specs: both operands and the weights' gradient.
    """
    first, second, out = specs
    floor_s, took = direct_gradient_s(work, shape, shape.taps, out.itemsize, shape.channels_last)
    read = float(first.nbytes + second.nbytes)
    kernel = stream(work, "conv_wgrad_direct", read, out.nbytes, first.dtype, out.numel)
    duration = floor_s + max(took, kernel.memory_s)
    blocks = ceil(out.numel / _WEIGHTS)
    return kernel.lasting(
        duration,
        flops=shape.flops,
        compute_s=took,
        limiter="compute" if took > kernel.memory_s else "memory",
        kind="convolution",
        grid=blocks,
        waves=blocks / (work.units * float(_RESIDENT)),
    )
