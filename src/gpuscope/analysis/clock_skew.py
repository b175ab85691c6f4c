"""How far the ranks' clocks run apart, from collectives that all of them leave together.

All ranks leave an all-reduce at nearly the same time, whenever they came. So the ends of one
collective, as each rank's clock shows them, differ by the clocks' offsets; the median over many
collectives is robust against single late exits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuscope.timeline.types import Ints


@dataclass(frozen=True, slots=True)
class Offset:
    """One rank's clock against the median rank's.

    Attributes:
        offset_ns: how far it runs ahead.
        spread_ns: median absolute deviation of the single readings: drift, or exits that were not
            together.
        readings: collectives it was read from.
    """

    offset_ns: int
    spread_ns: int
    readings: int


def clock_offsets(end_ns: Ints, rank: Ints, number: Ints) -> Mapping[int, Offset]:
    """Return each rank's offset; empty without a collective on two ranks.

    Args:
        end_ns: ends of collective calls, each on its own rank's clock.
        rank: whose call it is, any small integers.
        number: which collective it is part of, any small integers.
    """
    if len(end_ns) == 0:
        return {}
    order = np.lexsort((end_ns, number))
    ends, of = end_ns[order], number[order]
    starts = np.flatnonzero(np.concatenate(([True], of[1:] != of[:-1])))
    count = np.diff(np.concatenate((starts, [len(of)])))
    # The lower median, so that it is a reading and sums stay integers.
    middle = ends[starts + (count - 1) // 2]
    ahead = np.empty(len(ends), np.int64)
    ahead[order] = ends - np.repeat(middle, count)
    usable = np.empty(len(ends), bool)
    usable[order] = np.repeat(count >= 2, count)
    found: dict[int, Offset] = {}
    for code in np.unique(rank[usable]).tolist():
        own = ahead[usable & (rank == code)]
        offset = int(np.median(own))
        found[code] = Offset(offset, int(np.median(np.abs(own - offset))), len(own))
    return found


def joint_offsets(groups: Sequence[Mapping[int, Offset]]) -> Mapping[int, Offset]:
    """Join the offsets of several groups, each against its own median, into one set.

    With o the rank's offset and g the unknown clock of the group, every reading says o - g; the
    least squares solution of smallest norm joins all groups that share ranks. The result is
    against the median rank.
    """
    ranks = sorted({rank for group in groups for rank in group})
    if not ranks:
        return {}
    place = {rank: i for i, rank in enumerate(ranks)}
    readings = [
        (place[rank], len(ranks) + number, offset)
        for number, group in enumerate(groups)
        for rank, offset in group.items()
    ]
    matrix = np.zeros((len(readings), len(ranks) + len(groups)))
    value = np.array([offset.offset_ns for _, _, offset in readings], np.float64)
    for row, (rank, group, _) in enumerate(readings):
        matrix[row, rank], matrix[row, group] = 1.0, -1.0
    solution = np.linalg.lstsq(matrix, value, rcond=None)[0][: len(ranks)]
    ahead = np.rint(solution - np.sort(solution)[(len(ranks) - 1) // 2]).astype(np.int64)
    return {
        rank: Offset(
            int(ahead[i]),
            max(group[rank].spread_ns for group in groups if rank in group),
            sum(group[rank].readings for group in groups if rank in group),
        )
        for i, rank in enumerate(ranks)
    }
