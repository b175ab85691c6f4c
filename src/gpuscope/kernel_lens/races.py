"""Threads that meet in shared memory without a barrier in between.

The simulator runs one thread after the other, so a missing barrier may go unnoticed there; a device
runs warps in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOAD, STORE, ATOMIC = 0, 1, 2


def races(events: NDArray[np.int64]) -> dict[tuple[int, int], int]:
    """Find words that one warp writes and another warp reads or writes between two barriers.

    Two atomic operations are no race. Lanes of one warp are left out: they mostly run together.

    Args:
        events: one row for each access of a block to one shared array: barriers passed before,
            address, warp, sort (`LOAD`, `STORE`, `ATOMIC`), number of the source line.

    Returns:
        (line that writes, other line) -> words concerned.
    """
    found: dict[tuple[int, int], int] = {}
    for group in _shared_words(events):
        pairs = set()
        rows = np.unique(group[:, 2:], axis=0)
        for warp, sort, line in rows[rows[:, 1] != LOAD]:
            others = rows[rows[:, 0] != warp]
            if sort == ATOMIC:
                others = others[others[:, 1] != ATOMIC]
            pairs |= {_ordered(sort, line, other) for other in others}
        for pair in pairs:
            found[pair] = found.get(pair, 0) + 1
    return found


def _ordered(sort: int, line: int, other: NDArray[np.int64]) -> tuple[int, int]:
    """The writing line first; of two that write, the smaller one."""
    if other[1] == LOAD:
        return int(line), int(other[2])
    return (min(int(line), int(other[2])), max(int(line), int(other[2])))


def _shared_words(events: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Accesses grouped by interval and address, where several warps meet and one writes."""
    if not len(events):
        return []
    ordered = events[np.lexsort((events[:, 1], events[:, 0]))]
    new = np.any(ordered[1:, :2] != ordered[:-1, :2], axis=1)
    begins = np.concatenate([[0], np.nonzero(new)[0] + 1])
    writes = np.maximum.reduceat(ordered[:, 3], begins) != LOAD
    several = np.maximum.reduceat(ordered[:, 2], begins) != np.minimum.reduceat(
        ordered[:, 2], begins
    )
    ends = np.append(begins[1:], len(ordered))
    chosen = np.nonzero(writes & several)[0]
    return [ordered[begins[n] : ends[n]] for n in chosen]
