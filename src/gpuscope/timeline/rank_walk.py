"""The walk over several ranks' schedules at once: each goes on until it needs another.

A collective that distinct ranks join ends when the last has come and the data has moved; a send and
its receive likewise (a rendezvous). Each rank's walk pauses where something depends on a meeting
whose other ranks have not come yet, and goes on when they have. Ranks that are equal are walked
once, whatever their number.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuscope.cost.types import CostedProgram
from gpuscope.errors import HangError
from gpuscope.timeline.match import Call, Coupling, couple
from gpuscope.timeline.schedule import Schedule, build_schedule
from gpuscope.timeline.walk import Arrival, Floats, Walk, Walker, check_steps, enough


@dataclass(frozen=True, slots=True)
class Job:
    """Distinct ranks ready to be walked together.

    Attributes:
        costed, members: each distinct program, and the ranks that run it.
        schedules: the steps as rows.
        coupling: which calls meet.
        meetings: for each class: row -> seat (see `Coupling.seats`).
    """

    costed: tuple[CostedProgram, ...]
    members: tuple[tuple[int, ...], ...]
    schedules: tuple[Schedule, ...]
    coupling: Coupling
    meetings: tuple[dict[int, int], ...]


@dataclass(frozen=True, slots=True)
class Pace:
    """How one class of ranks differs from what was costed.

    Attributes:
        host, device: factors on all host times, on all device times.
        late_s: what its host loses at the begin of each step.
        duration_s: device time of each row where it is not the schedule's own.
    """

    host: float = 1.0
    device: float = 1.0
    late_s: float = 0.0
    duration_s: Floats | None = None


def build_job(costed: Sequence[CostedProgram], members: Sequence[tuple[int, ...]]) -> Job:
    """Flatten the programs and find out who meets whom; programs that are one are flattened once.

    Raises:
        InvalidValueError: programs and members do not fit together.
        HangError: calls that should meet differ, or have no partner.
    """
    coupling = couple(costed, members)
    known: dict[int, Schedule] = {}
    for item in costed:
        if id(item) not in known:
            known[id(item)] = build_schedule(item)
    schedules = tuple(known[id(item)] for item in costed)
    meetings = tuple(
        _rows(schedule, seats) for schedule, seats in zip(schedules, coupling.meetings, strict=True)
    )
    return Job(tuple(costed), tuple(map(tuple, members)), schedules, coupling, meetings)


def _rows(schedule: Schedule, seats: Mapping[int, int]) -> dict[int, int]:
    """Rows of communicators, by the seat of their operator."""
    if not seats:
        return {}
    on_link = np.isin(np.array(schedule.queue), list(schedule.links))
    rows = np.flatnonzero(on_link & np.isin(schedule.op, list(seats)))
    ops = schedule.op[rows].tolist()
    return {row: seats[op] for row, op in zip(rows.tolist(), ops, strict=True)}


@dataclass(slots=True)
class Exchange:
    """Where arrivals wait for their partners.

    Attributes:
        coupling: who meets whom.
        count: arrivals so far, by seat.
        waiting: (channel, number of the meeting) -> (seat, arrival) of those that have come.
        met: meetings that took place.
    """

    coupling: Coupling
    count: list[int]
    waiting: dict[tuple[int, int], list[tuple[int, Arrival]]] = field(default_factory=dict)
    met: int = 0

    def arrive(self, meeting: int, arrival: Arrival) -> None:
        """Take note of an arrival at seat `meeting`; the last one lets all go on."""
        channel = self.coupling.seats[meeting].channel
        key = (channel, self.count[meeting])
        self.count[meeting] += 1
        there = self.waiting.setdefault(key, [])
        there.append((meeting, arrival))
        if len(there) < self.coupling.parties[channel]:
            return
        del self.waiting[key]
        self.met += 1
        begin_s = max(each.begin_s for _, each in there)
        finish_s = begin_s + max(each.duration_s for _, each in there)
        for _, each in there:
            each.walker.meet(each, finish_s)


def walk_job(job: Job, steps: int = 3, paces: Sequence[Pace] = ()) -> list[Walk]:
    """Walk all ranks step by step until the job's period is steady.

    Args:
        job: the ranks.
        steps: how many steps at least.
        paces: how each class differs from what was costed; none: not at all.

    Raises:
        InvalidValueError: `steps` is less than 1.
        HangError: ranks wait for each other for ever.
    """
    check_steps(steps)
    exchange = Exchange(job.coupling, [0] * len(job.coupling.seats))
    walkers = [
        Walker(
            schedule, costed.launch_latency_s, pace.host, pace.device, duration_s=pace.duration_s,
            late_s=pace.late_s, meetings=meetings, place=exchange,
        )
        for schedule, costed, pace, meetings in zip(
            job.schedules, job.costed, paces or [Pace()] * len(job.costed), job.meetings,
            strict=True,
        )
    ]  # fmt: skip
    ends: list[float] = []
    while not enough(ends, steps):
        _step(job, walkers, exchange)
        ends.append(max(walker.ends[-1] for walker in walkers))
    return [walker.walk() for walker in walkers]


def _step(job: Job, walkers: Sequence[Walker], exchange: Exchange) -> None:
    """Walk one step on all ranks."""
    under_way: list[Generator[None, None, None]] = [walker.step() for walker in walkers]
    while under_way:
        before, left = exchange.met, []
        for walk in under_way:
            for _ in walk:
                left.append(walk)
                break
        if len(left) == len(under_way) and exchange.met == before:
            raise hang(job, exchange)
        under_way = left


def hang(job: Job, exchange: Exchange) -> HangError:
    """The error where ranks wait for each other for ever: what each of them waits for."""
    waiting: dict[int, str] = {}
    for (channel, number), there in sorted(exchange.waiting.items()):
        for seat_number, arrival in there:
            seat = job.coupling.seats[seat_number]
            rank = job.costed[seat.member].program.rank
            call: Call = seat.calls[number % len(seat.calls)]
            absent = [
                str(job.costed[other.member].program.rank)
                for index, other in enumerate(job.coupling.seats)
                if other.channel == channel and index not in {n for n, _ in there}
            ]
            waiting.setdefault(rank, f"{call.words}, which needs rank {', '.join(absent)}")
            del arrival
    said = tuple(sorted(waiting.items()))
    return HangError(
        "Ranks " + ", ".join(str(rank) for rank, _ in said[:8]) + " wait for each other for ever.",
        " ".join(f"Rank {rank} waits in {words}." for rank, words in said[:8]),
        "Give calls of different groups, and sends and receives, the same order on all ranks, or"
        " put sends and receives that go both ways into one batch_isend_irecv.",
        said,
    )
