"""Joining the equal places of a sparse tensor: a merge sort, the distinct ones, their sums.

`_coalesce_sparse_cuda` (aten/src/ATen/native/sparse/cuda/SparseCUDATensor.cu): places become one
number each; two counting sequences are written; Thrust sorts with a comparison of its own, so by
merging (CUB's `DeviceMergeSort`): blocks of 256 threads sort 2,048 pairs each, then halves of the
number of runs are merged, pass by pass, each pass a kernel that finds where to cut and one that
merges; equal places are dropped in one sweep, their number is read back, and a last kernel adds the
values of equal places.
"""

from __future__ import annotations

from math import ceil, log2

from gpuscope.cost.bandwidth import Launch, is_hot, kernel
from gpuscope.cost.copy.model import copy_kernel, fill_kernel
from gpuscope.cost.reduction.model import memset_kernel
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

RUN = 2048
"""Pairs that one block sorts: 8 for each of 256 threads (recorded grids: 8 blocks of 16,384 pairs,
400 of 819,200)."""

SWEPT = 4928
"""Pairs that a block of the sweep over distinct places reads: 11 for each of 448 threads (4 and 167
blocks of the same)."""

_SORTED_S = 14.6e-6
"""A block sorts its run: 8 of them on 132 multiprocessors took 15.7 us with the launch, 400 took
49.3: one after the other on each (`validation/recordings/h200/fourth/multi-task-ranking`)."""

_CUT_S, _CUT_STEP_S = 1.6e-6, 0.1e-6
"""Finding where to cut two runs, and a step of its binary search: 3.1 us with 16,384 pairs; with
819,200, of whose 11 us most pass while the merge before still runs, 5."""

_MERGED_S, _SWEPT_S = 3.0e-6, 4.4e-6
"""A block merges its tile, and one of the sweep looks back at those before it: 3.8 and 5.4 us."""


@kernel_model("aten::_coalesce.sparse")
def coalesce(work: Work) -> tuple[Kernel, ...]:
    """`x.coalesce()` of a tensor of places and values."""
    if len(work.op.inputs) < 2 or len(work.op.outputs) < 2:
        return ()
    places, values = work.op.inputs[:2]
    count = places.shape[-1] if places.shape else 0
    if count < 2:
        return ()
    order = TensorSpec((count,), (1,), "int64", "device")
    numbers = copy_kernel(work, order, order, hot=True)
    sequence = fill_kernel(work, order)
    return (
        numbers,
        sequence,
        sequence,
        *merge_sort(work, count),
        *_distinct(work, count),
        _sums(work, values, work.op.outputs[1], is_hot(work, 1)),
    )


def merge_sort(work: Work, count: int) -> tuple[Kernel, ...]:
    """Thrust's sort of so many pairs of 64-bit numbers by a comparison."""
    tiles = ceil(count / RUN)
    moved = count * 16.0
    sort = Launch(
        "merge_sort_runs",
        "sort",
        0.0,
        moved,
        moved,
        grid=tiles,
        block=256,
        resident=1,
        chain_s=_SORTED_S,
    )
    cut_s = _CUT_S + _CUT_STEP_S * log2(count)
    cut = Launch("merge_sort_cuts", "sort", grid=ceil(tiles / 256), block=256, chain_s=cut_s)
    merge = Launch(
        "merge_sort_merge", "sort", 0.0, moved, moved, grid=tiles, block=256, chain_s=_MERGED_S
    )
    passes = ceil(log2(tiles)) if tiles > 1 else 0
    both = kernel(work, cut), kernel(work, merge)
    return (kernel(work, sort), *both * passes)


def _distinct(work: Work, count: int) -> tuple[Kernel, ...]:
    blocks = ceil(count / SWEPT)
    init = kernel(work, Launch("scan_init", "sort", grid=ceil(blocks / 128)))
    read = count * 16.0
    sweep = Launch(
        "unique_by_key", "sort", 0.0, read, read, grid=blocks, block=448, chain_s=_SWEPT_S
    )
    return init, kernel(work, sweep), memset_kernel(work)


def _sums(work: Work, values: TensorSpec, out: TensorSpec, hot: bool) -> Kernel:
    """A warp adds the values of equal places, four rows of which share a block."""
    read = float(values.nbytes)
    rows = out.shape[0] if out.shape else 1
    across = max(1, out.numel // max(rows, 1))
    return kernel(
        work,
        Launch(
            "coalesce_values",
            "gather",
            0.0 if hot else read,
            read if hot else 0.0,
            float(out.nbytes),
            grid=ceil(rows / 4) * ceil(across / 128),
            block=128,
            loads=3.0,  # where a place begins, which values it has, these
            dtype=values.dtype,
            family="gather.rows",
        ),
    )
