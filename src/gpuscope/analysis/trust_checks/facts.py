"""What the checks of one rank look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.window import LAUNCH, marked_steps, rank_rows
from gpuscope.timeline.types import DEVICE_KINDS, Ints, Source, Step, Timeline

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RankFacts:
    """One rank's recording.

    Attributes:
        timeline: the whole timeline.
        rank: which rank.
        source: what the file says of itself; None if unknown.
        several: the timeline has other ranks too.
        device: rows of device events, ascending.
        host: rows of host events (steps and other marks included).
        launch: rows of launch calls.
        steps: the rank's steps, in order, as `marked_steps` has them.
        recorded: for each of `device` its row in `Timeline.recorded`, -1 without one.
    """

    timeline: Timeline
    rank: int
    source: Source | None
    several: bool
    device: Ints
    host: Ints
    launch: Ints
    steps: tuple[Step, ...]
    recorded: Ints

    def column(self, name: str) -> Ints | None:
        """Return a column of `Recorded` for the device events, -1 where unknown; None without."""
        recorded = self.timeline.recorded
        if recorded is None:
            return None
        values: Ints = getattr(recorded, name)
        if len(values) == 0:
            return np.full(len(self.device), -1, np.int64)
        return np.where(self.recorded >= 0, values[np.maximum(self.recorded, 0)], -1)

    def named(self, rows: Ints) -> list[str]:
        """Return the names of events."""
        return [self.timeline.names[i] for i in self.timeline.events.name[rows].tolist()]

    @property
    def span_ns(self) -> int:
        """First to last device event; 0 without any."""
        events = self.timeline.events
        if len(self.device) == 0:
            return 0
        return int(events.end_ns[self.device].max() - events.start_ns[self.device].min())


def rank_facts(timeline: Timeline, rank: int, several: bool) -> RankFacts:
    """Collect what the checks look at."""
    events = timeline.events
    rows = rank_rows(timeline, rank)
    device = np.flatnonzero(rows & (events.kind < DEVICE_KINDS))
    recorded = np.full(len(device), -1, np.int64)
    if timeline.recorded is not None and len(timeline.recorded):
        of = timeline.recorded.event
        at = np.minimum(np.searchsorted(of, device), len(of) - 1)
        recorded = np.where(of[at] == device, at, -1)
    return RankFacts(
        timeline=timeline,
        rank=rank,
        source=next((s for s in timeline.sources if s.rank == rank), None),
        several=several,
        device=device,
        host=np.flatnonzero(rows & (events.kind >= DEVICE_KINDS)),
        launch=np.flatnonzero(rows & (events.kind == LAUNCH)),
        steps=marked_steps(timeline, rank),
        recorded=recorded,
    )
