"""Writes and additions by index: scatter, index_add, and sums that meet at one address."""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import SECTOR_BYTES, is_hot, machine
from gpuscope.cost.copy.model import copy_kernel, fill_kernel
from gpuscope.cost.indexing.gather import FEW_INDICES, WALKED, element_kernel, few_rows, walk
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_WARP, _LINE_BYTES = 32, 128
_RIVALS = 8192.0
"""Most additions to one address that are in flight at a time (recorded up to there)."""


@kernel_model(
    "aten::index_add",
    "aten::index_add_",
    "aten::index_copy",
    "aten::index_copy_",
    "aten::index_fill",
    "aten::index_fill_",
    "aten::index_reduce_",
)
def index_add(work: Work) -> tuple[Kernel, ...]:
    """Adds (or writes) rows by index, atomically."""
    return _scatter(work, "index_add", work.op.inputs[-1])


@kernel_model(
    "aten::scatter",
    "aten::scatter_",
    "aten::scatter_add",
    "aten::scatter_add_",
    "aten::scatter_reduce",
    "aten::scatter_reduce_",
    "aten::masked_scatter",
    "aten::masked_scatter_",
    "aten::put_",
    "aten::put",
)
def scatter(work: Work) -> tuple[Kernel, ...]:
    """Writes (or adds, atomically) elements by index."""
    index = work.op.inputs[1] if len(work.op.inputs) > 1 else work.op.inputs[0]
    return _scatter(work, "scatter_add" if "add" in work.op.name else "scatter", index)


def _scatter(work: Work, key: str, moved: TensorSpec) -> tuple[Kernel, ...]:
    table = work.op.inputs[0]
    before: tuple[Kernel, ...] = ()
    if not work.op.name.endswith("_") and work.outputs and work.outputs[0].numel:
        before = (copy_kernel(work, table, work.outputs[0], is_hot(work, 0)),)
    if not moved.numel:
        return before
    indices = moved.shape[0] if moved.shape else 1
    if key == "index_add" and indices <= FEW_INDICES and len(table.shape) > 1:
        return (*before, few_rows(work, "index_add_few", indices, moved))
    size = moved.numel * table.itemsize
    summed = min(size, float(table.nbytes)) if "add" in key else 0.0  # read, to be added to
    read = size + summed + (moved.touched_bytes if key != "index_add" else 0.0)
    values = key != "scatter" or len(work.op.inputs) > 2
    loads = 0.0 if key == "index_add" else walk(work, moved.numel, values)
    made = element_kernel(work, key, key, moved.numel, read, size, loads=loads)
    reduces = work.op.name.startswith("aten::scatter_reduce")
    sums = work.op.args.get("reduce", "sum") in ("sum", "mean") if reduces else "add" in key
    if sums and key != "index_add":
        if moved.stride and moved.stride[-1]:
            made = _scattered(work, made, moved.numel, size)
        made = _contended(work, made, moved)
    if "add" in key or reduces:
        made = _in_turn(work, made, moved)
    return (*before, *(_reduced(work, made, before) if reduces else (made,)))


def _reduced(work: Work, made: Kernel, before: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """Extrema swap and try again; means count as they add, and divide by what they counted.

    `scatter_reduce_two` (ATen/native/TensorAdvancedIndexing.cpp): the result is cleared where the
    table takes no part, and copied as a whole once more.
    """
    how = work.op.args.get("reduce", "sum")
    if how in ("amax", "amin", "prod"):
        floor_s = machine(work).floor_s
        times = work.constants.value("gather.swapped_extrema")
        made = _lasting(made, floor_s + (made.duration_s - floor_s) * times)
        return (*before, _lasting(made, floor_s + _swapped_s(work)))
    if how != "mean" or not work.outputs:
        return (*before, made)
    out = work.outputs[0]
    counts, divided = fill_kernel(work, out), copy_kernel(work, out, out)
    return (*before, counts, counts, made, made, divided, divided, divided)


def _in_turn(work: Work, made: Kernel, moved: TensorSpec) -> Kernel:
    """At least as long as one line of the L2 takes for all additions to it.

    Lanes of a warp whose addresses lie in one sector are one addition; the four sectors of a line
    follow each other. Recorded sums of 12,000 to 3 million values into 18 to 760 places.
    """
    table, m = work.op.inputs[0], machine(work)
    if not m.clocks_per_s or not moved.numel:
        return made
    sectors = max(table.nbytes / SECTOR_BYTES, 1.0)
    lines = max(table.nbytes / _LINE_BYTES, 1.0)
    tail = moved.numel // max(moved.shape[0], 1) if moved.shape else 1
    beside = min(float(tail), float(_WARP))  # lanes that add to one row, side by side
    picked = sectors * (1.0 - (1.0 - 1.0 / sectors) ** (_WARP / beside))
    asked = max(picked, beside * table.itemsize / SECTOR_BYTES)
    turns = moved.numel / _WARP * asked / lines
    of = "value" if table.itemsize >= 4 else "pair"
    clock_s = m.units / m.clocks_per_s
    seconds = m.floor_s + turns * work.constants.value(f"gather.line_{of}_clocks") * clock_s
    return _lasting(made, seconds)


def _lasting(made: Kernel, seconds: float) -> Kernel:
    """The same, at least so long."""
    return made if seconds <= made.duration_s else made.lasting(seconds, limiter="l2")


def _swapped_s(work: Work) -> float:
    """A thread's swaps, one after the other: it reads, compares and swaps, and tries again where
    another came first."""
    get, table, index = work.constants.value, *work.op.inputs[:2]
    width = "value" if table.itemsize >= 4 else "pair"
    meets = min(1.0, index.numel / max(table.numel, 1) / 2.0)
    each_s = get("gather.swap_alone_s") + meets * get(f"gather.swap_met_{width}_s")
    return min(WALKED, ceil(index.numel / 128)) * each_s


def _contended(work: Work, made: Kernel, index: TensorSpec) -> Kernel:
    """Atomic additions of which many meet at one address wait for each other there.

    The L2 cache adds float32 itself, so many sectors a clock; lanes beside each other that add to
    one row share them. 16-bit values are swapped in by compare-and-swap, which is tried again
    whenever another thread came first, and which no sector's lanes do together.
    """
    get = work.constants.value
    table, m, items = work.op.inputs[0], machine(work), index.numel
    if not m.clocks_per_s:
        return made
    each = items / max(table.numel, 1)
    clock_s = m.units / m.clocks_per_s
    row = index.numel / max(index.shape[0], 1) if index.shape and not index.stride[-1] else 1.0
    if table.itemsize >= 4:
        a_clock = get("gather.atomics_per_clock") * min(row, SECTOR_BYTES / table.itemsize)
        adding_s = max(items / a_clock, each * get("gather.add_clocks")) * clock_s
    else:
        a_clock = min(get("gather.swaps_per_clock"), get("gather.lone_swaps_per_clock") * row)
        turn_s = get("gather.swap_s")
        turn_s += min(each, _RIVALS) * get("gather.swap_again_s")
        # Sums of one column were recorded 3 to 60 times as fast as their turns would let them be.
        waited_s = (each - 1.0) * turn_s if table.numel > max(table.shape[:1], default=1) else 0.0
        adding_s = max(items / a_clock * clock_s, waited_s)
    hot = all(is_hot(work, i) for i in range(len(work.op.inputs)))
    # An index, then what it points at, then the sum's way back.
    start_s = walk(work, items) * (m.l2_latency_s if hot else m.latency_s)
    return _lasting(made, m.floor_s + start_s + adding_s)


def _scattered(work: Work, made: Kernel, items: int, size: float) -> Kernel:
    """Additions at places of their own: atomic ones of the L2 cache, a sector each."""
    get = work.constants.value
    m = machine(work)
    if not m.clocks_per_s:
        return made
    adding_s = items * m.units / m.clocks_per_s / get("gather.atomics_per_clock")
    apart = work.op.inputs[0].nbytes > m.l2_bytes / 2  # what is added to does not stay near
    moved_s = (items * 2 * SECTOR_BYTES * apart + size * 3) / m.read_bytes_per_s
    # An index, then what it points at, then the sum's way back.
    seconds = m.floor_s + get("gather.scattered_s") + adding_s + moved_s
    return _lasting(made, seconds)
