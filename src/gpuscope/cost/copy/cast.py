"""A cast to float8 that also writes the tensor with its dimensions swapped, in one kernel.

Transformer Engine's `cast_transpose` (nvte_cast_transpose): tiles go through shared memory, so that
both results are written in whole rows. Bound by memory: 2 bytes read and 2 written an element.
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, elements, first_dtype, kernel, reads, written
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel

TILE = 4096
"""Elements of a block's tile, 64 x 64."""


@kernel_model("gpuscope::cast_transpose")
def cast_transpose(work: Work) -> tuple[Kernel, ...]:
    """One kernel; nothing for an empty tensor."""
    count = elements(work.inputs[:1])
    if count == 0:
        return ()
    read = reads(work)
    return (
        kernel(
            work,
            Launch(
                "cast_transpose",
                "pointwise",
                read.cold,
                read.hot,
                written(work),
                grid=ceil(count / TILE),
                dtype=first_dtype(work),
            ),
        ),
    )
