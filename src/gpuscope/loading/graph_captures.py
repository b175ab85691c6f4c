"""Recordings of nothing but captures of CUDA graphs, told apart from those of their replays.

Serving engines record the two in files of their own: the capture once at the start, and steps of
replays later, under load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuscope.loading.job import Job, Reading
from gpuscope.timeline.captured_graphs import has_captures, has_replays
from gpuscope.timeline.types import Timeline

Read = tuple[Job, Reading]


def captures_apart(readings: Sequence[Read]) -> tuple[list[Read], list[Read]]:
    """Recordings to look at, and those that only say what their graphs were captured from.

    A recording with captures and without a graph's launch is one of the latter where another has
    launches of graphs and no captures.
    """
    captured = {id(read) for read in readings if has_captures(read[1].timeline)}
    replayed = {id(read) for read in readings if has_replays(read[1].timeline)}
    if not replayed - captured:
        return list(readings), []
    only = captured - replayed
    return (
        [read for read in readings if id(read) not in only],
        [read for read in readings if id(read) in only],
    )


def captures_of_ranks(
    ranks: Sequence[int], captures: Sequence[tuple[int | None, Timeline]]
) -> Mapping[int, list[Timeline]]:
    """The captures of each rank: of the rank that they state; all of them of the only rank."""
    if len(ranks) == 1:
        return {ranks[0]: [timeline for _, timeline in captures]}
    return {rank: [timeline for said, timeline in captures if said == rank] for rank in ranks}
