"""What the threads of a reduction issue, and which sectors of the L2 they ask for.

Every thread of `reduce_kernel` (aten/src/ATen/native/cuda/Reduce.cuh) first works out where its
output and its values lie, by a division for each dimension that is left; then it loads, and
combines what it has with its neighbours', by shuffles within a warp. A row of nine values in the
hands of eight threads costs those threads' beginning and end, not the values. Values that lie far
from those of the neighbouring threads take a sector each.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from math import log2

from gpuscope.cost.bandwidth import SECTOR_BYTES
from gpuscope.cost.reduction.plan import ReducePlan, Runs
from gpuscope.cost.registry import Work

_WARP = 32
_BANKS, _BANK_BYTES = 32, 4
_UNROLLED = 4
"""Loads of a thread that are under way together (`vt0`)."""

_ARITHMETIC = {
    "amax": "compare",
    "amin": "compare",
    "any": "mask",
    "all": "mask",
    "argmax": "place",
    "argmin": "place",
    "max": "place",
    "min": "place",
    "aminmax": "place",
    "var": "moments",
    "var_mean": "moments",
    "std": "moments",
    "std_mean": "moments",
    "linalg_vector_norm": "norm",
    "norm": "norm",
}
"""What is combined, where it is no sum: values with their places, moments and counts."""

_BOTH = frozenset({"max", "min", "aminmax"})
"""Results with another beside them, which a thread of columns writes one by one."""


def thread_clocks(
    work: Work,
    name: str,
    plan: ReducePlan,
    innermost: bool,
    runs: tuple[Runs, Runs],
    itemsize: float,
) -> float:
    """Clocks that one thread keeps a multiprocessor of 128 lanes busy.

    Args:
        work: for the constants, "reduction.<arithmetic>.*".
        name: of the operator.
        plan: how it is cut.
        innermost: along dense runs.
        runs: reduced and kept dimensions, merged.
        itemsize: bytes of a value.
    """
    get, reduced, kept = work.constants.value, *runs
    of = f"reduction.{_ARITHMETIC.get(name, 'add')}"
    loads = max(plan.per_thread / plan.loaded, 1.0)
    shuffles = log2(min(plan.across, _WARP)) if innermost else 0.0
    each = get(f"{of}.value_cycles")
    if of == "reduction.add" and itemsize < 4:
        each += get("reduction.convert_cycles")
    results = get(f"{of}.output_cycles")
    if name in _BOTH and not innermost:
        results += get("reduction.place.both_cycles")
    banks = bank_turns(plan, innermost, runs, itemsize) - 1.0
    return (
        get(f"{of}.thread_cycles")
        + results * plan.vector
        + each * plan.per_thread * plan.vector
        + get("reduction.bank_cycles") * banks / _WARP * loads
        + get(f"{of}.shuffle_cycles") * shuffles
        + get("reduction.load_cycles") * loads
        + get("reduction.index_cycles") * loads * _further(reduced)
        + get("reduction.kept_cycles") * _further(kept)
    )


def _further(runs: Runs) -> int:
    """Dimensions beyond the first: each is a division."""
    return max(len(runs) - 1, 0)


@lru_cache(maxsize=2048)
def sectors_per_byte(
    plan: ReducePlan, innermost: bool, runs: tuple[Runs, Runs], itemsize: float
) -> float:
    """Bytes of sectors that a block asks the L2 for, to a byte that it uses; 1 where all is dense.

    Args:
        plan: how it is cut.
        innermost: along dense runs.
        runs: reduced and kept dimensions, merged.
        itemsize: bytes of a value.
    """
    if _is_dense(innermost, runs, itemsize):
        return 1.0
    places = _places(plan, innermost, runs)
    sectors = {int(at * itemsize) // SECTOR_BYTES for at in places}
    used = len(places) * plan.loaded * plan.vector
    return max(len(sectors) * SECTOR_BYTES / (used * itemsize), 1.0)


@lru_cache(maxsize=2048)
def bank_turns(
    plan: ReducePlan, innermost: bool, runs: tuple[Runs, Runs], itemsize: float
) -> float:
    """Turns in which the L1's 32 banks hand out what a warp loads; as `sectors_per_byte`."""
    if _is_dense(innermost, runs, itemsize):
        return 1.0
    turns = min(_UNROLLED, max(plan.per_thread // plan.loaded, 1))
    first = _places(plan, innermost, runs)[:: int(turns)][:_WARP]
    words = {int(at * itemsize) // _BANK_BYTES for at in first}
    return float(max(Counter(word % _BANKS for word in words).values(), default=1))


def _is_dense(innermost: bool, runs: tuple[Runs, Runs], itemsize: float) -> bool:
    """Whether neighbouring threads read side by side."""
    across = runs[0] if innermost else runs[1]
    size, step = across[0] if across else (1, 1)
    return step == 1 and size * itemsize >= 2 * SECTOR_BYTES


def _places(plan: ReducePlan, innermost: bool, runs: tuple[Runs, Runs]) -> list[int]:
    """Elements at which the threads of a block load, those of a thread one after another."""
    reduced, kept = runs
    down, split = plan.threads // plan.across, plan.down > 1
    found = []
    for thread in range(plan.threads):
        y, x = divmod(thread, plan.across)
        if innermost:
            out, at = (0 if split else y), (x + y * plan.across * split) * plan.loaded
            stride = plan.across * plan.loaded * (down if split else 1)
        else:
            out = (x + (0 if split else y * plan.across)) * plan.vector
            at, stride = y * split, down if split else 1
        for turn in range(min(_UNROLLED, max(plan.per_thread // plan.loaded, 1))):
            found.append(_offset(kept, out) + _offset(reduced, at + turn * stride))
    return found


def _offset(runs: Runs, index: int) -> int:
    """Where the element of that number lies, in elements."""
    at = 0
    for size, step in runs:
        index, within = divmod(index, size)
        at += within * step
    return at
