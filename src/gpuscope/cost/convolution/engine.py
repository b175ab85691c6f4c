"""cuDNN's data gradients in float32 on the vector lanes (`dgrad_engine`).

A product of the filters (input channels x taps) and the result's gradient (positions), in tiles of
64 x 32 by 64 threads, whose results are added to the input's gradient one by one; that gradient is
set to zero first. It works on channels-first data: channels-last tensors are converted around it,
as recorded for 20 of 20 such passes. Read off 45 recorded launches of an H200 (cuDNN 9.19): the
tiles' arithmetic at half of the vector lanes' peak, 7.3 ps an addition in memory, 48 ns a channel
that is summed over where few blocks run.
"""

from __future__ import annotations

from math import ceil, hypot

from gpuscope.cost.convolution.shape import ConvShape
from gpuscope.cost.convolution.stream import stream
from gpuscope.cost.matmul.gemm import rate_and_unit
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_ROWS, _COLUMNS = 64, 32
_RESIDENT = 16


def engine_gradient(
    work: Work, shape: ConvShape, specs: tuple[TensorSpec, TensorSpec, TensorSpec]
) -> list[Kernel]:
    """Its kernels for channels-first data, without groups.

    Args:
        work: the operator.
        shape: its sizes.
        specs: both operands and the input's gradient.
    """
    first, second, out = specs
    get = work.constants.value
    rows, depth = shape.channels_in * shape.taps, shape.channels_out
    blocks = ceil(rows / _ROWS) * ceil(shape.positions_out / _COLUMNS) * shape.images
    peak, _ = rate_and_unit(work.device, "float32")
    flops = 2.0 * blocks * _ROWS * _COLUMNS * depth
    arithmetic_s = flops / (peak * get("convolution.engine.efficiency"))
    added = float(shape.images * rows * shape.positions_out)
    adds_s = added * get("convolution.engine.add_s")
    chain_s = depth * get("convolution.engine.chain_s")
    took = hypot(arithmetic_s, adds_s, chain_s)
    read = float(first.nbytes + second.nbytes)
    kernel = stream(work, "conv_dgrad_engine", read, 4.0 * added, first.dtype, out.numel)
    duration = get("convolution.engine.floor_s") + took
    main = kernel.lasting(
        duration,
        flops=shape.flops,
        least_bytes=read + out.nbytes,
        written_bytes=float(out.nbytes),
        compute_s=took,
        memory_s=min(kernel.memory_s, took),
        limiter="compute",
        kind="convolution",
        grid=blocks,
        block=64,
        waves=blocks / (work.units * float(_RESIDENT)),
    )
    zero = stream(work, "zero_gradient", out.nbytes, out.nbytes, out.dtype, out.numel)
    return [zero, main]
