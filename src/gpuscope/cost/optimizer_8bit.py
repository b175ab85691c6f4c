"""One tensor's AdamW step with moments of 8 bits (`gpuscope::adamw_8bit`).

A block of 256 threads takes 256 elements, whose moments share a scale: it reads parameter, gradient
and both moments, and writes parameter and moments back (bitsandbytes,
`kOptimizerStatic8bit2StateBlockwise`). Memory does not set its pace, instructions do. A warp issues
some 520 of them for its 32 elements (bitsandbytes 0.50, code for sm_90, in which no path is long
that few elements take): copying two tables of 256 values into shared memory, two reductions over
the block, and for each moment a binary search of eight steps in a table, a load from shared memory
and some ten instructions each. That is 4.1 clocks an element with all four schedulers busy. They
are not: a block has 14 barriers, five loads that wait for each other, and only four blocks fit (56
registers a thread). Measured on an H200: 26.7 ps an element in bfloat16, 27.6 in float32, 7 clocks
(`benchmarks/micro/adamw_8bit.py`, `validation/recordings/h200/micro/adamw_8bit.jsonl`).
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel

_BLOCK = 256


@kernel_model("gpuscope::adamw_8bit")
def adamw_8bit(work: Work) -> tuple[Kernel, ...]:
    """Parameter, gradient, two moments, two lists of scales: all but the gradient are rewritten."""
    inputs = work.op.inputs
    device = [t for t in inputs if t.device == "device" and t.numel > 0]
    if not device:
        return ()
    parameter, gradient = inputs[:2]
    read = float(sum(t.nbytes for t in device))
    return (
        kernel(
            work,
            Launch(
                "adamw_8bit",
                "optimizer",
                cold_bytes=read,
                written_bytes=read - gradient.nbytes,
                items=parameter.numel,
                cycles=work.constants.value("optimizer.adamw_8bit_cycles"),
                grid=ceil(parameter.numel / _BLOCK),
                block=_BLOCK,
                streaming=True,
                dtype=parameter.dtype,
            ),
        ),
    )
