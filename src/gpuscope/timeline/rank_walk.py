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
from gpuscope.document.text import Text, sentences
from gpuscope.errors import HangError
from gpuscope.timeline.match import Call, Coupling, couple
from gpuscope.timeline.rank_graph import GraphRank, run_graph
from gpuscope.timeline.schedule import Schedule, build_schedule
from gpuscope.timeline.walk import EXTRA_STEPS, Arrival, Pace, Walk, Walker, check_steps, enough


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
        waiting: (channel, number of the meeting) -> (seat, arrival) of those that have come.
        count: calls issued so far, by seat.
        met: meetings that took place.
    """

    coupling: Coupling
    waiting: dict[tuple[int, int], list[tuple[int, Arrival]]] = field(default_factory=dict)
    count: dict[int, int] = field(default_factory=dict)
    met: int = 0

    def ticket(self, meeting: int) -> int:
        """The number of the next call that is issued at seat `meeting`."""
        number = self.count.get(meeting, 0)
        self.count[meeting] = number + 1
        return number

    def arrive(self, meeting: int, ticket: int, arrival: Arrival) -> None:
        """Take note of an arrival at seat `meeting`; the last one lets all go on."""
        channel = self.coupling.seats[meeting].channel
        key = (channel, ticket)
        there = self.waiting.setdefault(key, [])
        there.append((meeting, arrival))
        if len(there) < self.coupling.parties[channel]:
            return
        del self.waiting[key]
        self.met += 1
        begin_s = max(each.begin_s for _, each in there)
        finish_s = begin_s + max(each.duration_s for _, each in there)
        for _, each in there:
            each.guest.meet(each, finish_s)


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
    paces = paces or [Pace()] * len(job.costed)
    exchange = Exchange(job.coupling)
    walkers = [
        Walker(schedule, costed.launch_latency_s, pace, meetings, exchange)
        for schedule, costed, pace, meetings in zip(
            job.schedules, job.costed, paces, job.meetings, strict=True
        )
    ]
    ends: list[float] = []
    while not enough(ends, steps):
        if not _step(walkers, exchange):
            return _walk_graph(job, steps + EXTRA_STEPS, paces)
        ends.append(max(walker.ends[-1] for walker in walkers))
    return [walker.walk() for walker in walkers]


def _step(walkers: Sequence[Walker], exchange: Exchange) -> bool:
    """Walk one step on all ranks; false where all have paused for each other."""
    under_way: list[Generator[None, None, None]] = [walker.step() for walker in walkers]
    while under_way:
        before, left = exchange.met, []
        for walk in under_way:
            for _ in walk:
                left.append(walk)
                break
        if len(left) == len(under_way) and exchange.met == before:
            return False
        under_way = left
    return True


def _walk_graph(job: Job, steps: int, paces: Sequence[Pace]) -> list[Walk]:
    """The same, with hosts that run on past what cannot begin yet."""
    exchange = Exchange(job.coupling)
    ranks = [
        GraphRank(schedule, costed.launch_latency_s, pace, steps, meetings, exchange)
        for schedule, costed, pace, meetings in zip(
            job.schedules, job.costed, paces, job.meetings, strict=True
        )
    ]
    if not run_graph(ranks):
        raise hang(job, exchange)
    return [rank.walk() for rank in ranks]


def hang(job: Job, exchange: Exchange) -> HangError:
    """The error where ranks wait for each other for ever: what each of them waits for."""
    waiting: dict[int, Text] = {}
    for (channel, number), there in sorted(exchange.waiting.items()):
        for seat_number, _ in there:
            seat = job.coupling.seats[seat_number]
            rank = job.costed[seat.member].program.rank
            call: Call = seat.calls[number % len(seat.calls)]
            absent = [
                str(job.costed[other.member].program.rank)
                for index, other in enumerate(job.coupling.seats)
                if other.channel == channel and index not in {n for n, _ in there}
            ]
            needs = ", ".join(absent)
            waiting.setdefault(
                rank, Text("{call}, which needs rank {needs}", call=call.words, needs=needs)
            )
    said = tuple(sorted(waiting.items()))
    return HangError(
        Text(
            "Ranks {ranks} wait for each other for ever.",
            ranks=", ".join(str(rank) for rank, _ in said[:8]),
        ),
        sentences(
            *(Text("Rank {rank} waits in {call}.", rank=rank, call=call) for rank, call in said[:8])
        ),
        Text(
            "Give calls of different groups, and sends and receives, the same order on all ranks, "
            "or put sends and receives that go both ways into one batch_isend_irecv."
        ),
        said,
    )
