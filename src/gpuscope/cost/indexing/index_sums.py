"""The kernel that adds rows by sorted indices, one warp an index, in a fixed order.

`index_put` that accumulates, and the gradient of indexing (ATen/native/cuda/Indexing.cu,
`indexing_backward_kernel`, with forms of its own for rows of one value and of up to a warp's).
Four warps are a block, each takes an index and 128 values of its row. A warp whose index is
the one before it ends at once; the first of a run of equal ones adds them all, row after row.
So every block costs its start, and those with the first of a run as long as that run.
"""

from __future__ import annotations

from math import ceil, sqrt

from gpuscope.cost.bandwidth import Launch, kernel, machine
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec

_WARPS, _VALUES = 4, 128
"""Indices of a block, and values of a row that a warp takes (`indices_per_block`, `UNROLL`)."""

_WARP = 32
_RESIDENT = 16
"""Blocks of 128 threads that a multiprocessor holds."""


def index_sums(
    work: Work, table: TensorSpec, count: int, slots: int, tail: int, images: int = 1
) -> Kernel:
    """Add `count` rows of `tail` values to the rows of `table` that their indices name.

    Args:
        work: the operator.
        table: what is added to.
        count: indices, sorted; which ones are equal is not known, so all rows are as likely.
        slots: rows of the table that an index can name.
        tail: values of a row.
        images: of the dimensions before the indexed ones, each has the same indices.
    """
    get, m = work.constants.value, machine(work)
    pieces = ceil(tail / _VALUES) * images
    blocks = ceil(count / _WARPS) * pieces
    run = max(count / slots, 1.0)
    key = "count" if tail == 1 else "narrow" if tail <= _WARP else "row"
    row_s = get(f"gather.accumulate.{key}_s")
    ends_s = get("gather.accumulate.end_s")
    first_s = get("gather.accumulate.first_s")
    busy = 1.0 - (1.0 - 1.0 / run) ** _WARPS  # blocks in which a run begins
    mean_s = ends_s + busy * (first_s + run * row_s)
    # Few runs are as long as the longest: each is one warp's work, whatever else is idle.
    longest_s = ends_s + first_s + (run + 2.0 * sqrt(run - 1.0)) * row_s
    waves = ceil(blocks / (m.units * _RESIDENT))
    added = float(count * images * tail * table.itemsize)
    kept = float(min(count, slots) * images * tail * table.itemsize)
    return kernel(
        work,
        Launch(
            "indexing_backward",
            "gather",
            added + kept + 16.0 * count,
            0.0,
            kept,
            grid=max(blocks, 1),
            block=_WARPS * _WARP,
            resident=_RESIDENT,
            chain_s=max(mean_s, longest_s / waves),
            loads=0.0,
            dtype=table.dtype,
            family="gather.backward",
            note=Text("one writer for each index"),
        ),
    )
