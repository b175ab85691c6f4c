"""Tasks that run at the same time slow each other: kernels beside collectives, and the reverse.

How much is a matter of the device (`Overlap`); how long they run side by side comes out of the
walk, and changes it. So the step is walked, every task that ran beside others is given the time
that it would take beside them, and the step is walked again, until nothing moves any more.

A task with a factor f progresses at the rate 1 / f: from its begin on, its work is done at the rate
that holds at each moment, so a kernel that is covered for half of its work takes
(1 + f) / 2 times as long. What waits inside a collective for another rank moves no bytes and counts
for nothing. A task never gets shorter than alone; one beside nothing keeps its time to the last
bit. Steps follow each other, so what is at the end of a step may run beside the next one's begin.

A collective that could begin while a kernel fills the device is held until that has room for its
blocks, in its last wave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gpuscope.cost.overlap import (
    moving_of,
    room_after_s,
    slowdown_of_collective,
    slowdown_of_collectives,
    slowdown_of_compute,
)
from gpuscope.cost.registry import Constants
from gpuscope.cost.types import Kernel
from gpuscope.hardware import Calibration, Device, calibration_for
from gpuscope.timeline.schedule import Schedule
from gpuscope.timeline.types import Ints
from gpuscope.timeline.walk import Floats, Walk

ROUNDS = 6
"""Walks after which the times are taken as they are."""

SETTLED = 1e-4
"""Share of the period by which no task may still change."""

SETTLED_ALL = 1e-3
"""The same of all tasks of a rank together: in a long step each alone is next to nothing."""

Bools = npt.NDArray[np.bool_]


class Overlap(Protocol):
    """How many times longer tasks take while others run beside them; 1 or more."""

    def of_kernel(self, kernel: Kernel, collective: Kernel) -> float:
        """A kernel while `collective` runs all along."""

    def of_collective(self, collective: Kernel, kernel: Kernel) -> float:
        """A collective while kernels such as `kernel` run all along."""

    def of_collectives(self, collective: Kernel, others: Sequence[Kernel]) -> float:
        """A collective while others move their bytes all along."""

    def room_s(self, kernel: Kernel, collective: Kernel) -> float:
        """From a kernel's begin until a collective that is issued meanwhile finds room."""


@dataclass(frozen=True, slots=True)
class DeviceOverlap:
    """The factors of `gpuscope.cost.overlap` on one device.

    Attributes:
        device: where the tasks run.
        constants: `collective.overlap.*`.
    """

    device: Device
    constants: Constants

    @classmethod
    def of(cls, device: Device, calibration: Calibration | None = None) -> DeviceOverlap:
        """Make it of a calibration, the catalogue's own by default."""
        return cls(device, Constants(calibration or calibration_for(device)))

    def of_kernel(self, kernel: Kernel, collective: Kernel) -> float:
        """See `Overlap`."""
        return slowdown_of_compute(
            kernel.kind, kernel.limiter, collective, self.device, self.constants
        )

    def of_collective(self, collective: Kernel, kernel: Kernel) -> float:
        """See `Overlap`."""
        return slowdown_of_collective(
            kernel.kind, kernel.limiter, collective, self.device, self.constants
        )

    def of_collectives(self, collective: Kernel, others: Sequence[Kernel]) -> float:
        """See `Overlap`; those inside a scale-up domain and those between domains share nothing."""
        # The fabric's rate depends on the cluster; collectives fill it.
        link = None if _far(collective) else self.device.scale_up_bandwidth_bytes_per_s
        beside = [moving_of(other, link) for other in others if _far(other) == _far(collective)]
        return slowdown_of_collectives(beside, moving_of(collective, link), self.constants)

    def room_s(self, kernel: Kernel, collective: Kernel) -> float:
        """See `Overlap`."""
        return room_after_s(kernel, collective, self.device)


def _far(kernel: Kernel) -> bool:
    """Whether a collective leaves its scale-up domain."""
    return kernel.scope == "fabric"


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast work of one sort gets on, piecewise constant over time.

    Attributes:
        time_s: where the rate changes, ascending.
        factor: from each of these times on; 1 before the first.
    """

    time_s: Floats
    factor: Floats

    def stretched_s(self, begin_s: Floats, work_s: Floats) -> Floats:
        """How long work takes that begins at these times and would take `work_s` alone."""
        if not len(self.time_s):
            return work_s
        slow = np.concatenate(([0], np.cumsum(self.factor > 1)))
        first = np.searchsorted(self.time_s, begin_s, side="right")
        last = np.searchsorted(self.time_s, begin_s + work_s, side="left")
        at_begin = np.concatenate(([1.0], self.factor))[first]
        touched = (slow[last] > slow[first]) | (at_begin > 1)
        done = np.concatenate(([0.0], np.cumsum(np.diff(self.time_s) / self.factor[:-1])))
        goal = self._done(begin_s, done) + work_s
        end = np.searchsorted(done, goal, side="right") - 1
        inside = np.maximum(end, 0)
        rate = np.where(end >= 0, self.factor[inside], 1.0)
        finish = self.time_s[inside] + (goal - done[inside]) * rate
        return np.where(touched, np.maximum(finish - begin_s, work_s), work_s)

    def _done(self, time_s: Floats, done: Floats) -> Floats:
        """Work done from the first change of rate to these times (negative before it)."""
        at = np.searchsorted(self.time_s, time_s, side="right") - 1
        inside = np.maximum(at, 0)
        rate = np.where(at >= 0, self.factor[inside], 1.0)
        return np.asarray(done[inside] + (time_s - self.time_s[inside]) / rate, np.float64)


def rates(start_s: Floats, end_s: Floats, factor: Floats) -> Rates:
    """The rates beside intervals of which each has its factor; where several are, the largest."""
    keep = (end_s > start_s) & (factor > 1)
    start_s, end_s, factor = start_s[keep], end_s[keep], factor[keep]
    times = _distinct(np.concatenate((start_s, end_s)))
    found = np.ones(len(times))
    for value in _distinct(factor).tolist():  # ascending: larger ones are laid over smaller
        own = factor == value
        depth = np.zeros(len(times) + 1)
        np.add.at(depth, np.searchsorted(times, start_s[own]), 1)
        np.add.at(depth, np.searchsorted(times, end_s[own]), -1)
        found[np.cumsum(depth[:-1]) > 0] = value
    return Rates(times, found)


_FEW = 64
"""Numbers that Python sorts more quickly than NumPy."""


def _distinct(numbers: Floats) -> Floats:
    """The distinct ones, ascending: a long job asks hundreds of thousands of times about a few."""
    if len(numbers) > _FEW:
        return np.unique(numbers)
    return np.array(sorted(set(numbers.tolist())), np.float64)


@dataclass(frozen=True, slots=True)
class Beside:
    """What running beside others does to a step's tasks: as `Pace` has it, by row."""

    duration_s: Floats
    held_s: Floats


def settle(
    schedules: Sequence[Schedule],
    walk: Callable[[Sequence[Beside]], Sequence[Walk]],
    overlap: Overlap | None,
) -> tuple[Sequence[Walk], list[Beside]]:
    """Walk until the times that tasks take beside each other are those that were walked with.

    Args:
        schedules: the step of each rank.
        walk: walks all ranks with these times.
        overlap: the factors; None: tasks do not slow each other.

    Returns:
        The last walks, and the times that they took.
    """
    used = [Beside(s.duration_s, np.zeros(len(s.duration_s))) for s in schedules]
    walks = walk(used)
    if overlap is None or not any(schedule.links for schedule in schedules):
        return walks, used
    for _ in range(ROUNDS):
        new = [
            Beside(
                contended_s(schedule, own, times.duration_s, overlap),
                held_s(schedule, own, times.held_s, overlap),
            )
            for schedule, own, times in zip(schedules, walks, used, strict=True)
        ]
        if all(map(_settled, walks, used, new)):
            break
        used, walks = new, walk(new)
    return walks, used


def _settled(walk: Walk, before: Beside, after: Beside) -> bool:
    """Whether times have changed by no more than `SETTLED`, `SETTLED_ALL` of the period."""
    pairs = ((before.duration_s, after.duration_s), (before.held_s, after.held_s))
    moved_s = [np.abs(b - a) for a, b in pairs]
    each = all(bool((moved <= SETTLED * walk.period_s).all()) for moved in moved_s)
    return each and sum(float(m.sum()) for m in moved_s) <= SETTLED_ALL * walk.period_s


def held_s(schedule: Schedule, walk: Walk, used_s: Floats, overlap: Overlap) -> Floats:
    """How long each collective waits for room beside the kernels that ran when it could begin.

    Args:
        schedule, overlap: see `contended_s`.
        walk: over the schedule.
        used_s: how long collectives were held in it.
    """
    out = np.zeros(len(used_s))
    queue = np.array(schedule.queue, np.int64)
    talks = np.isin(queue, list(schedule.links))
    rows = np.flatnonzero(talks & (schedule.kernel >= 0))
    ready = walk.start_s[rows] - used_s[rows]
    for stream in np.unique(queue[(schedule.kernel >= 0) & ~talks]).tolist():
        tasks = np.flatnonzero((queue == stream) & (schedule.kernel >= 0))
        last = np.searchsorted(walk.start_s[tasks], ready, side="left") - 1
        for number in np.flatnonzero(last >= 0).tolist():
            task, row = int(tasks[last[number]]), int(rows[number])
            begin, end = float(walk.start_s[task]), float(walk.end_s[task])
            if end <= ready[number]:
                continue
            kernel = schedule.kernels[int(schedule.kernel[task])]
            collective = schedule.kernels[int(schedule.kernel[row])]
            alone = kernel.duration_s or 1.0
            room = begin + overlap.room_s(kernel, collective) / alone * (end - begin)
            out[row] = max(out[row], min(room, end) - float(ready[number]), 0.0)
    return out


def contended_s(schedule: Schedule, walk: Walk, used_s: Floats, overlap: Overlap) -> Floats:
    """Device time of each row beside what ran at the same time in a walk.

    Args:
        schedule: the step; its durations are those of tasks that run alone.
        walk: over it.
        used_s: the device times of rows that it was walked with.
        overlap: the factors.
    """
    tasks = _Tasks(schedule, walk, used_s)
    out = schedule.duration_s.copy()
    if not tasks.talks.any():
        return out
    for sort, rows in tasks.sorts(~tasks.talks):
        beside = tasks.rates(tasks.talks, partial(overlap.of_kernel, sort))
        if beside is not None:
            out[rows] = beside.stretched_s(walk.start_s[rows], schedule.duration_s[rows])
    for sort, rows in tasks.sorts(tasks.talks):
        beside = tasks.rates(~tasks.talks, partial(overlap.of_collective, sort))
        if beside is not None:
            out[rows] = beside.stretched_s(tasks.begin_s[rows], schedule.duration_s[rows])
    for row, others in tasks.collectives_side_by_side():
        start_s, end_s, factor = tasks.sharing(row, others, overlap)
        if not (factor > 1).any():
            continue
        shared, own = rates(start_s, end_s, factor), slice(row, row + 1)
        longest = shared.stretched_s(tasks.begin_s[own], schedule.duration_s[own])
        out[own] = np.maximum(out[own], longest)
    return out


class _Tasks:
    """The device tasks of a walk's last step, with copies one period before and after."""

    def __init__(self, schedule: Schedule, walk: Walk, used_s: Floats) -> None:
        self.schedule, self.period_s = schedule, walk.period_s
        self.queue = np.array(schedule.queue, np.int64)
        self.talks = np.isin(self.queue, list(schedule.links))
        self.end_s = walk.end_s
        # Of a collective only the transfer at its end counts, not the wait for other ranks before.
        self.begin_s = np.where(
            self.talks, np.maximum(walk.end_s - used_s, walk.start_s), walk.start_s
        )
        self.tasks = schedule.kernel >= 0
        self.examples, of_kernel = _sorts(schedule.kernels)
        self.sort = np.where(self.tasks, of_kernel[schedule.kernel], -1)
        self._known: dict[bytes, Rates] = {}

    def sorts(self, wanted: Bools) -> list[tuple[Kernel, Ints]]:
        """A kernel of each sort of these tasks, and their rows."""
        rows = np.flatnonzero(self.tasks & wanted)
        rows = rows[np.argsort(self.sort[rows], kind="stable")]
        found, first = np.unique(self.sort[rows], return_index=True)
        ends = np.append(first, len(rows))[1:]
        return [
            (self.examples[sort], rows[low:high])
            for sort, low, high in zip(found.tolist(), first, ends, strict=True)
        ]

    def rates(self, wanted: Bools, factor_of: Callable[[Kernel], float]) -> Rates | None:
        """Rates beside these tasks; None where they slow nothing."""
        rows = np.flatnonzero(self.tasks & wanted)
        table = np.ones(len(self.examples))
        for sort in np.unique(self.sort[rows]).tolist():
            table[sort] = factor_of(self.examples[sort])
        if not (table > 1).any():
            return None
        key = table.tobytes()
        if key not in self._known:
            self._known[key] = self._around(rows, table[self.sort[rows]])
        return self._known[key]

    def _around(self, rows: Ints, factors: Floats) -> Rates:
        shifts = (-self.period_s, 0.0, self.period_s)
        return rates(
            np.concatenate([self.begin_s[rows] + shift for shift in shifts]),
            np.concatenate([self.end_s[rows] + shift for shift in shifts]),
            np.tile(factors, len(shifts)),
        )

    def collectives_side_by_side(self) -> Iterator[tuple[int, list[int]]]:
        """Collectives with those of other queues that move bytes while they do."""
        rows = np.flatnonzero(self.talks)
        if len(np.unique(self.queue[rows])) < 2:
            return
        begin, end, queue = self.begin_s[rows], self.end_s[rows], self.queue[rows]
        for number, row in enumerate(rows.tolist()):
            beside = (begin < end[number]) & (end > begin[number]) & (queue != queue[number])
            others = rows[beside].tolist()
            if others:
                yield row, others

    def sharing(
        self, row: int, others: list[int], overlap: Overlap
    ) -> tuple[Floats, Floats, Floats]:
        """Intervals with the collectives that share the link in them, and this one's factor."""
        own = self.schedule.kernels[int(self.schedule.kernel[row])]
        edges = _distinct(np.concatenate([self.begin_s[others], self.end_s[others]]))
        start, end = edges[:-1], edges[1:]
        factors = np.ones(len(start))
        for number, (low, high) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
            active = [
                self.schedule.kernels[int(self.schedule.kernel[other])]
                for other in others
                if self.begin_s[other] <= low and self.end_s[other] >= high
            ]
            factors[number] = overlap.of_collectives(own, active) if active else 1.0
        return start, end, factors


def _sorts(kernels: Sequence[Kernel]) -> tuple[list[Kernel], Ints]:
    """Kernels that slow others, and are slowed, alike: one of each, and each kernel's number.

    Of a kernel kind and limiter decide, of a collective what it takes and moves.
    """
    numbers: dict[object, int] = {}
    examples: list[Kernel] = []
    found = np.empty(len(kernels) + 1, np.int64)
    for index, k in enumerate(kernels):
        key: object = (k.kind, k.limiter)
        if k.lane == "link":
            key = (k.name, k.duration_s, k.units, k.sent_bytes, k.moving_s, k.scope)
        number = numbers.setdefault(key, len(examples))
        if number == len(examples):
            examples.append(k)
        found[index] = number
    return examples, found
