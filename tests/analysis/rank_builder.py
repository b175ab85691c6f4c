"""Timelines of several ranks by hand, with collectives. Times in microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from builders import US, TimelineBuilder

from gpuscope.timeline.types import Collective, Recorded, Source, Timeline


@dataclass
class RankBuilder(TimelineBuilder):
    """Adds collectives to a `TimelineBuilder`; `timeline` ties them to their metadata.

    Attributes:
        skew_us: by rank, how far its clock runs ahead.
    """

    origin: str = "measured"
    table: list[Collective] = field(default_factory=list)
    meta: dict[tuple[int, str, int], tuple[int, int]] = field(default_factory=dict)
    skew_us: dict[int, float] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)

    def meet(
        self,
        arrivals_us: Mapping[int, float],
        transfer_us: float,
        *,
        name: str = "all_reduce",
        kernel: str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        group: str | None = "0",
        members: tuple[int, ...] | None = None,
        size: int | None = None,
        elements: int | None = 1024,
        sequence: int = -1,
        stream: str = "stream 20",
        launch_before_us: float | None = None,
        dtype: str = "Float",
    ) -> float:
        """Add one collective: each rank's kernel runs from its arrival until all have left.

        Returns the time at which they leave.
        """
        leave = max(arrivals_us.values()) + transfer_us
        index = -1
        if group is not None:
            ranks = tuple(arrivals_us) if members is None else members
            entry = Collective(name, group, len(ranks) or size, ranks, dtype, elements, elements)
            if entry not in self.table:
                self.table.append(entry)
            index = self.table.index(entry)
        for rank, arrival in arrivals_us.items():
            skew = self.skew_us.get(rank, 0.0)
            launch = None if launch_before_us is None else arrival + skew - launch_before_us
            self.work(
                arrival + skew,
                leave + skew,
                kind="communication",
                name=kernel,
                stream=stream,
                rank=rank,
                launch_us=launch,
            )
            self.meta[rank, stream, round((arrival + skew) * US)] = index, sequence
        return leave

    def timeline(self) -> Timeline:
        """Build, with the collectives' metadata and one source a rank."""
        plain = self.build()
        events = plain.events
        rows = np.flatnonzero(events.kind < 4)
        unknown = np.full(len(rows), -1, np.int64)
        collective, sequence, launch = unknown.copy(), unknown.copy(), unknown.copy()
        calls = {int(events.correlation[row]): int(row) for row in np.flatnonzero(events.kind == 5)}
        for i, row in enumerate(rows.tolist()):
            lane = plain.lanes[int(events.lane[row])]
            key = lane.rank, lane.name, int(events.start_ns[row])
            collective[i], sequence[i] = self.meta.get(key, (-1, -1))
            launch[i] = calls.get(int(events.correlation[row]), -1)
        ranks = sorted({lane.rank for lane in plain.lanes})
        recorded = Recorded(
            event=rows,
            grid=np.ones((len(rows), 3), np.int64),
            block=np.ones((len(rows), 3), np.int64),
            registers=unknown,
            shared_bytes=unknown,
            occupancy=np.full(len(rows), np.nan),
            nbytes=unknown,
            stream=unknown,
            graph=unknown,
            launch=launch,
            operator=unknown,
            collective=collective,
            sequence=sequence,
        )
        sources = self.sources or [
            Source(rank, f"rank-{rank}.json", rank_known=True, world_size=len(ranks))
            for rank in ranks
        ]
        return replace(
            plain, recorded=recorded, collectives=tuple(self.table), sources=tuple(sources)
        )
