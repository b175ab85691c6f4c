"""The walk over a schedule: host clock against device queues, step after step."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.timeline.schedule import WAIT_ALL, Extra, Schedule

LAUNCH_QUEUE_DEPTH = 1024
"""Launches that a stream holds before the next launch call blocks. CUDA does not document it; about
1000 a stream were observed (Stack Overflow question 53970187, NVIDIA forum thread 68937)."""

STEADY_TOLERANCE = 1e-3
"""Two successive periods that differ by less than this fraction count as steady."""

EXTRA_STEPS = 3
"""How many steps beyond those asked for may be simulated to become steady."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Walk:
    """What walking a schedule step after step gave. Times in seconds from the first step's begin.

    Attributes:
        ends_s: completion of each step: the later of its host's and its device's end.
        host_begin_s: when the host began the last step.
        waited_s: per row of the last step, how long the host had waited in it up to and
            including the row; a row's host time is `host_begin_s` + static clock + this.
        start_s: per row, device start of the task (waits: begin of the wait).
        end_s: per row, device end of the task (waits: return of the wait).
    """

    ends_s: list[float]
    host_begin_s: float
    waited_s: Floats
    start_s: Floats
    end_s: Floats

    @property
    def period_s(self) -> float:
        """Duration of the last step, completion to completion."""
        return self.ends_s[-1] - (self.ends_s[-2] if len(self.ends_s) > 1 else 0.0)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A rank's task that ends only when other ranks have come, too.

    Attributes:
        guest: whose it is.
        row: its row, in the step that the walker was in.
        ends_s: that step's `Walker.end`.
        queue: its device queue.
        begin_s: when it came.
        duration_s: how long it takes once all are there.
    """

    guest: Guest
    row: int
    ends_s: list[float]
    queue: int
    begin_s: float
    duration_s: float


class Guest(Protocol):
    """A rank that meets others."""

    def meet(self, arrival: Arrival, finish_s: float) -> None:
        """All have come to what `arrival` waits for: it ends at `finish_s`."""


class Meetings(Protocol):
    """Where ranks meet: takes arrivals, and calls `Guest.meet` of all once all are there."""

    def ticket(self, meeting: int) -> int:
        """The number of the next call that is issued for a meeting."""

    def arrive(self, meeting: int, ticket: int, arrival: Arrival) -> None:
        """Take note of an arrival; `meeting` is what the rank's `meetings` say."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How a rank differs from what was costed.

    Attributes:
        host, device: factors on all host times, on all device times but those of collectives.
        late_s: what its host loses at the begin of each step.
        duration_s: device time of each row, before the factor, where it is not the schedule's own.
        held_s: how much later than it could each collective begins, by row: it waits for room
            beside a kernel that fills the device; None: not at all.
    """

    host: float = 1.0
    device: float = 1.0
    late_s: float = 0.0
    duration_s: Floats | None = None
    held_s: Floats | None = None

    def held(self) -> dict[int, float]:
        """Rows that are held, with how long."""
        if self.held_s is None:
            return {}
        rows = np.flatnonzero(self.held_s > 0)
        return dict(zip(rows.tolist(), self.held_s[rows].tolist(), strict=True))

    def times_s(self, schedule: Schedule) -> Floats:
        """Device time of each row at this pace."""
        times = schedule.duration_s if self.duration_s is None else self.duration_s
        if self.device == 1.0 or not schedule.links:
            return times * self.device
        talks = np.isin(np.array(schedule.queue, np.int64), list(schedule.links))
        return np.where(talks, times, times * self.device)


def walk_steps(
    schedule: Schedule,
    latency_s: float,
    steps: int = 3,
    *,
    host_scale: float = 1.0,
    device_scale: float = 1.0,
    duration_s: Floats | None = None,
    held_s: Floats | None = None,
) -> Walk:
    """Walk a schedule until its period is steady; the fast path without events.

    Args:
        schedule: the step.
        latency_s: from a launch call's end to the start on an idle device; a wait's return takes
            as long, since the signal makes the same way back.
        steps: how many steps at least.
        host_scale: factor on all host times.
        device_scale: factor on all device durations but those of collectives.
        duration_s, held_s: as `Pace` has them.

    Raises:
        InvalidValueError: `steps` is less than 1.
    """
    check_steps(steps)
    walker = Walker(schedule, latency_s, Pace(host_scale, device_scale, 0.0, duration_s, held_s))
    while not enough(walker.ends, steps):
        for _ in walker.step():
            raise AssertionError("a rank alone waits for nobody")
    return walker.walk()


def check_steps(steps: int) -> None:
    """Refuse a number of steps that cannot be.

    Raises:
        InvalidValueError: it is less than 1.
    """
    if steps < 1:
        raise InvalidValueError(
            Text("Cannot simulate {steps} steps.", steps=steps),
            Text("At least one is needed."),
            Text("Pass steps=3."),
        )


def enough(ends: list[float], steps: int) -> bool:
    """Whether so many steps were walked and the period is steady, or enough was tried.

    Args:
        ends: completion of each step so far.
        steps: how many are asked for at least.
    """
    return len(ends) >= steps and (_steady(ends) or len(ends) >= steps + EXTRA_STEPS)


def _steady(ends: list[float]) -> bool:
    """Whether the last two periods agree; true where there are no two to compare."""
    if len(ends) < 3:
        return True
    last, before = ends[-1] - ends[-2], ends[-2] - ends[-3]
    return abs(last - before) <= STEADY_TOLERANCE * max(last, before)


class Walker:
    """One rank: clocks that carry over from step to step, in seconds.

    Attributes:
        ends: completion of each step.
        start, end, waited: as in `Walk`, of the step it is in; `end` is infinite where a row is
            not walked yet, or waits for other ranks.
        stuck: row that cannot begin yet; only of use while a step is under way.
    """

    def __init__(
        self,
        schedule: Schedule,
        latency_s: float,
        pace: Pace,
        meetings: Mapping[int, int] | None = None,
        place: Meetings | None = None,
    ) -> None:
        """Begin with an idle host and device.

        Args:
            schedule, latency_s: see `walk_steps`.
            pace: how it differs from what was costed.
            meetings: rows that end when other ranks have come, with the number of the meeting.
            place: where they meet; must be there if `meetings` are.
        """
        self.rows = list(
            zip(
                (schedule.host_s * pace.host).tolist(),
                schedule.queue,
                pace.times_s(schedule).tolist(),
                schedule.gap_s.tolist(),
                schedule.launched,
                schedule.extra,
                strict=True,
            )
        )
        self.held = pace.held()
        self.meetings = meetings or {}
        self.place = place
        self.latency_s, self.late_s = latency_s, pace.late_s
        self.host_step_s = schedule.host_step_s * pace.host
        self.clock_s = 0.0
        self.host_begin_s = 0.0
        self.queue_end = [0.0] * schedule.queues
        self.engine_end = [0.0] * schedule.engines
        self.open: dict[int, list[float]] = {}
        self.launched: list[list[float]] = [[] for _ in range(schedule.queues)]
        self.ends: list[float] = []
        self.waited: list[float] = []
        self.start: list[float] = []
        self.end = self.before = [0.0] * len(self.rows)
        self.stuck = -1

    def step(self) -> Generator[None, None, None]:
        """Walk one step; pauses wherever it depends on ranks that have not come yet.

        One pass over plain tuples: at tens of thousands of rows the cost of each line counts.
        """
        queue_end, launched, latency = self.queue_end, self.launched, self.latency_s
        base = self.host_begin_s = self.clock_s + self.late_s
        wait, count = 0.0, len(self.rows)
        self.before = self.end
        start = self.start = [0.0] * count
        end = self.end = [inf] * count
        waited = self.waited = [0.0] * count
        for row, (host, queue, duration, gap, launches, extra) in enumerate(self.rows):
            now = base + host + wait
            if queue < 0:
                while (done := self._awaited(queue, extra)) == inf:
                    self.stuck = row
                    yield
                start[row] = now
                if done > now - latency:
                    wait += done + latency - now
                    now = done + latency
                end[row] = now
                waited[row] = wait
                continue
            if launches:
                pending = launched[queue]
                if len(pending) >= LAUNCH_QUEUE_DEPTH:
                    room = pending[-LAUNCH_QUEUE_DEPTH]
                    if room > now:
                        wait += room - now
                        now = room
            begin = now + latency
            if extra is None:
                free = queue_end[queue] + gap
                if free > begin:
                    begin = free
            else:
                begin = self._after_extra(begin, queue, gap, extra)
            while begin == inf:
                self.stuck = row
                yield
                begin = self._after_extra(now + latency, queue, gap, extra)
            if extra is not None and row in self.held:
                begin += self.held[row]
            if launches:
                pending.append(begin)
            start[row] = begin
            waited[row] = wait
            if extra is None:
                queue_end[queue] = end[row] = begin + duration
            else:
                self._begin(row, begin, queue, duration, extra)
        self.clock_s = base + self.host_step_s + wait
        while (done := max(queue_end, default=0.0)) == inf:
            self.stuck = count
            yield
        self.ends.append(max(self.clock_s, done))

    def _awaited(self, queue: int, extra: Extra | None) -> float:
        """When what the host waits for is done; infinite where that is not known yet."""
        ends = self.queue_end
        done = max(ends, default=0.0) if queue == WAIT_ALL else ends[-2 - queue]
        if extra is not None:
            for row in extra[2]:
                done = max(done, self.end[row] if row >= 0 else self.before[row])
        return done

    def _after_extra(self, begin: float, queue: int, gap: float, extra: Extra | None) -> float:
        """The earliest start after queue, copy engine, joined queue, batch and writers."""
        if extra is None:
            return max(begin, self.queue_end[queue] + gap)
        engine, joined, writers, first = extra
        begin = max(begin, self.queue_end[queue] + gap if first < 0 else self.start[first])
        if engine >= 0:
            begin = max(begin, self.engine_end[engine])
        if joined >= 0:
            begin = max(begin, self.queue_end[joined])
        for row in writers:
            begin = max(begin, self.end[row] if row >= 0 else self.before[row])
        return begin

    def _begin(self, row: int, begin: float, queue: int, duration: float, extra: Extra) -> None:
        """Let a task begin that has more than its queue to it."""
        meeting = self.meetings.get(row, -1)
        finish = inf if meeting >= 0 else begin + duration
        self.end[row] = finish
        if extra[0] >= 0:
            self.engine_end[extra[0]] = finish
        if extra[1] < 0:
            self.queue_end[queue] = finish
            return
        batch = self.open[queue] = [finish] if extra[3] < 0 else [*self.open[queue], finish]
        self.queue_end[queue] = max(batch)
        if meeting >= 0 and self.place is not None:
            arrival = Arrival(self, row, self.end, queue, begin, duration)
            self.place.arrive(meeting, self.place.ticket(meeting), arrival)

    def meet(self, arrival: Arrival, finish_s: float) -> None:
        """All have come to what `arrival` waits for: it ends at `finish_s`."""
        arrival.ends_s[arrival.row] = finish_s
        ends = self.open[arrival.queue]
        ends[ends.index(inf)] = finish_s
        self.queue_end[arrival.queue] = max(ends)

    def walk(self) -> Walk:
        """What the steps so far gave."""
        return Walk(
            ends_s=list(self.ends),
            host_begin_s=self.host_begin_s,
            waited_s=np.array(self.waited, np.float64),
            start_s=np.array(self.start, np.float64),
            end_s=np.array(self.end, np.float64),
        )
