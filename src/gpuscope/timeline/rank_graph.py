"""Several ranks walked in the order of what depends on what, not in the order of issue.

`gpuscope.timeline.rank_walk` lets each rank pause at the first task that cannot begin yet. A real
host does not: it issues what comes after, too, and a call on another stream may be just what
another rank waits for. Where all ranks have paused, this walk decides. It keeps every task as a
node that begins when the last one it depends on has ended, and lets hosts run on until they really
wait. It gives the same times and is slower; if it stands still as well, the job hangs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from gpuscope.timeline.schedule import WAIT_ALL, Schedule
from gpuscope.timeline.walk import LAUNCH_QUEUE_DEPTH, Arrival, Meetings, Pace, Walk


class GraphRank:
    """One rank: its host, and its tasks of all steps as nodes numbered through.

    Attributes:
        start, end: per node; infinite where it has not begun, not ended.
        ends: completion of each step whose host is done; of use when everything has ended.
        done: the host has issued every step.
    """

    def __init__(
        self,
        schedule: Schedule,
        latency_s: float,
        pace: Pace,
        steps: int,
        meetings: dict[int, int],
        place: Meetings,
    ) -> None:
        """Begin with an idle host and device.

        Args:
            schedule, latency_s, meetings, place: see `gpuscope.timeline.walk.Walker`.
            pace: how it differs from what was costed.
            steps: how many steps to walk.
        """
        self.schedule, self.latency_s, self.pace, self.steps = schedule, latency_s, pace, steps
        self.host_s = (schedule.host_s * pace.host).tolist()
        self.duration_s = pace.times_s(schedule).tolist()
        self.host_step_s = schedule.host_step_s * pace.host
        self.meetings, self.place, self.held = meetings, place, pace.held()
        self.count = len(self.host_s)
        total = self.count * steps
        self.start, self.end, self.waited = [inf] * total, [inf] * total, [0.0] * total
        self.floor: dict[int, float] = {}
        self.missing: dict[int, int] = {}
        self.behind: dict[int, list[tuple[int, float]]] = {}
        self.tickets: dict[int, int] = {}
        self.first: dict[int, list[tuple[int, float]]] = {}
        self.last: list[list[int]] = [[] for _ in range(schedule.queues)]
        self.engine: list[int] = [-1] * schedule.engines
        self.launched: list[list[int]] = [[] for _ in range(schedule.queues)]
        self.at, self.wait_s, self.base_s = 0, 0.0, pace.late_s
        self.bases: list[float] = [self.base_s]
        self.hosts: list[float] = []
        self.ready: list[int] = []

    @property
    def done(self) -> bool:
        """Whether everything was issued and has ended."""
        return len(self.hosts) == self.steps and inf not in self.end

    def advance(self) -> None:
        """Let the host issue until it waits, and the device begin what can."""
        while len(self.hosts) < self.steps:
            if self.at == self.count * (len(self.hosts) + 1):
                self._next_step()
                continue
            row = self.at % self.count
            queue = self.schedule.queue[row]
            now = self.base_s + self.host_s[row] + self.wait_s
            if not (self._stand(row, queue, now) if queue < 0 else self._issue(row, queue, now)):
                break
            self.waited[self.at] = self.wait_s
            self.at += 1
        self._run()

    def _next_step(self) -> None:
        self.hosts.append(self.base_s + self.host_step_s + self.wait_s)
        self.base_s, self.wait_s = self.hosts[-1] + self.pace.late_s, 0.0
        self.bases.append(self.base_s)

    def _node(self, row: int) -> int:
        """Number of a row of this step; negative rows are of the step before."""
        return row + self.count * len(self.hosts)

    def _stand(self, row: int, queue: int, now: float) -> bool:
        """Let the host wait for the device; false where the device is not that far."""
        queues = self.last if queue == WAIT_ALL else [self.last[-2 - queue]]
        nodes = [node for queued in queues for node in queued]
        extra = self.schedule.extra[row]
        nodes += [self._node(r) for r in extra[2]] if extra is not None else []
        done = max((self.end[node] for node in nodes if node >= 0), default=0.0)
        if done == inf:
            return False
        self.start[self.at] = now
        back = max(now, done + self.latency_s)
        self.wait_s += back - now
        self.end[self.at] = back
        return True

    def _issue(self, row: int, queue: int, now: float) -> bool:
        """Hand a task to the device; false where its launch queue has no room yet."""
        if self.schedule.launched[row]:
            pending = self.launched[queue]
            if len(pending) >= LAUNCH_QUEUE_DEPTH:
                room = self.start[pending[-LAUNCH_QUEUE_DEPTH]]
                if room == inf:
                    self._run()
                    room = self.start[pending[-LAUNCH_QUEUE_DEPTH]]
                if room == inf:
                    return False
                self.wait_s += max(0.0, room - now)
                now = max(now, room)
            pending.append(self.at)
        node, gap = self.at, float(self.schedule.gap_s[row])
        before = [(other, gap) for other in self.last[queue]]
        extra = self.schedule.extra[row]
        if extra is not None:
            engine, joined, writers, first = extra
            before = list(self.first[self._node(first)]) if first >= 0 else before
            if engine >= 0:
                before.append((self.engine[engine], 0.0))
                self.engine[engine] = node
            before += [(other, 0.0) for other in (self.last[joined] if joined >= 0 else ())]
            before += [(self._node(r), 0.0) for r in writers]
            if joined >= 0:
                self.first[node] = before
        batch = extra is not None and extra[3] >= 0
        self.last[queue] = [*self.last[queue], node] if batch else [node]
        if row in self.meetings:
            self.tickets[node] = self.place.ticket(self.meetings[row])
        self._depend(node, now + self.latency_s, [pair for pair in before if pair[0] >= 0])
        return True

    def _depend(self, node: int, floor: float, before: list[tuple[int, float]]) -> None:
        open_ = 0
        for other, gap in before:
            if self.end[other] == inf:
                self.behind.setdefault(other, []).append((node, gap))
                open_ += 1
            else:
                floor = max(floor, self.end[other] + gap)
        self.floor[node], self.missing[node] = floor, open_
        if not open_:
            self.ready.append(node)

    def _run(self) -> None:
        """Let all begin that depend on nothing any more."""
        while self.ready:
            node = self.ready.pop(0)
            row = node % self.count
            self.start[node] = begin = self.floor.pop(node) + self.held.get(row, 0.0)
            if row in self.meetings:
                arrival = Arrival(self, node, self.end, -1, begin, self.duration_s[row])
                self.place.arrive(self.meetings[row], self.tickets.pop(node), arrival)
            else:
                self._finish(node, begin + self.duration_s[row])

    def _finish(self, node: int, end: float) -> None:
        self.end[node] = end
        for other, gap in self.behind.pop(node, ()):
            self.floor[other] = max(self.floor[other], end + gap)
            self.missing[other] -= 1
            if not self.missing[other]:
                self.ready.append(other)

    def meet(self, arrival: Arrival, finish_s: float) -> None:
        """All have come to what `arrival` waits for."""
        self._finish(arrival.row, finish_s)

    def walk(self) -> Walk:
        """What the steps gave."""
        tasks = np.array(self.end).reshape(self.steps, self.count)
        device = tasks.max(axis=1, initial=0.0)
        ends = np.maximum(np.array(self.hosts), np.maximum.accumulate(device))
        last = slice(self.count * (self.steps - 1), None)
        return Walk(
            ends_s=ends.tolist(),
            host_begin_s=self.bases[self.steps - 1],
            waited_s=np.array(self.waited[last]),
            start_s=np.array(self.start[last]),
            end_s=np.array(self.end[last]),
        )


def run_graph(ranks: Sequence[GraphRank]) -> bool:
    """Walk ranks together to the end; false where they stand still for ever."""
    before: list[tuple[int, int, int, int]] = []
    while not all(rank.done for rank in ranks):
        now = [(rank.at, len(rank.hosts), len(rank.behind), len(rank.floor)) for rank in ranks]
        if now == before:
            return False
        before = now
        for rank in ranks:
            rank.advance()
    return True
