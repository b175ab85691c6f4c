"""Replicas side by side: when requests come, where they go, and who works next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from importlib.util import find_spec
from math import inf

import numpy as np

from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError
from gpuscope.serving.batch import DeviceTime
from gpuscope.serving.engine import Engine
from gpuscope.serving.iteration import IterationCost
from gpuscope.serving.lockstep import Lockstep
from gpuscope.serving.pipeline import Pipeline
from gpuscope.serving.record import Record
from gpuscope.serving.replica import Replica
from gpuscope.serving.requests import Ints, Requests
from gpuscope.serving.routers import Router, router
from gpuscope.serving.schedulers import Limits
from gpuscope.serving.work import Work

Coming = tuple[float, int, float]
"""(in the engine's queue at, request, meant to be sent at)"""


class Arrivals:
    """When requests come: at their times, or, in a closed loop, when a place is free.

    Args:
        requests: all.
        lead_s: from sending to the engine's queue.
    """

    def __init__(self, requests: Requests, lead_s: float) -> None:
        self.lead_s, self.count, self.next = lead_s, len(requests), 0
        self.closed = bool(requests.concurrency)
        self.times: list[float] = requests.arrival_s.tolist()
        self.places = [0.0] * min(requests.concurrency, self.count)  # a heap: free since

    def next_s(self) -> float:
        """When the next one is in the queue; infinite where none is known to come."""
        if self.next >= self.count:
            return inf
        if self.closed:
            return self.places[0] + self.lead_s if self.places else inf
        return self.times[self.next] + self.lead_s

    def pop(self) -> Coming:
        """The next one."""
        each, self.next = self.next, self.next + 1
        intended = heappop(self.places) if self.closed else self.times[each]
        return intended + self.lead_s, each, intended

    def freed(self, each: int, at_s: float) -> None:
        """A request is done: in a closed loop its place is free."""
        if self.closed:
            heappush(self.places, at_s)


class Handed:
    """Requests that come from elsewhere, at times of their own."""

    closed = False

    def __init__(self, ready_s: Sequence[float], intended_s: Sequence[float]) -> None:
        self.heap: list[Coming] = [
            (at, each, intended)
            for each, (at, intended) in enumerate(zip(ready_s, intended_s, strict=True))
        ]
        heapify(self.heap)

    def next_s(self) -> float:
        """When the next one comes; infinite: none."""
        return self.heap[0][0] if self.heap else inf

    def pop(self) -> Coming:
        """The next one."""
        return heappop(self.heap)

    def freed(self, each: int, at_s: float) -> None:
        """Nothing waits for it."""


Worker = Replica | Lockstep | Pipeline
"""What has a clock of its own: a replica, its ranks together, or its stages."""


def drive(
    replicas: Sequence[Replica] | Sequence[Pipeline],
    coming: Arrivals | Handed,
    route: Router,
    workers: Sequence[Worker] = (),
) -> Iterator[int]:
    """Serve all that comes; yields each request at the moment when it is sent to a replica.

    A replica is never ahead of a request that is to be sent by more than the iteration that it is
    in; whoever is furthest behind works first.

    Args:
        replicas: to which requests are sent.
        coming: these.
        route: which goes where.
        workers: where ranks go in step, these; each replica by itself by default.
    """
    while True:
        at_s = coming.next_s()
        behind = [each for each in workers or replicas if each.busy and each.now < at_s]
        if behind:
            one = behind[0] if len(behind) == 1 else min(behind, key=lambda each: each.now)
            one.step(at_s)
            for done in one.take_ended():
                coming.freed(done, one.record.finished[done])
            continue
        if at_s == inf:
            return
        at_s, each, intended = coming.pop()
        at = route.choose(each, replicas) if len(replicas) > 1 else 0
        replicas[at].join(each, intended, at_s)
        replicas[at].work.replica[each] = at
        yield each


def serve_all(
    requests: Requests,
    engine: Engine,
    limits: Limits,
    cost: DeviceTime | IterationCost,
    *,
    replicas: int = 1,
    route: str = "round-robin",
) -> tuple[Record, list[Record], Ints]:
    """Serve requests on equal replicas, each of as many ranks or stages as `cost` says.

    Returns:
        What became of the requests, the iterations of each rank (or batch that is under way beside
        others) of each replica, and which of these served which.

    Raises:
        DoesNotFitError: a request that keys and values have no room for.
    """
    check_room(limits, int((requests.input_tokens + requests.output_tokens).max()))
    ranks = ranks_of(cost)
    stages = cost.stages if isinstance(cost, IterationCost) else None
    if replicas * ranks == 1 and stages is None and isinstance(cost, IterationCost):
        quick = _compiled(requests, engine, limits, cost)
        if quick is not None:
            return quick[0], [quick[1]], np.zeros(len(requests), np.int64)
    device_s = cost.device_s if isinstance(cost, IterationCost) else cost
    work, coming = Work(requests, engine, limits), Arrivals(requests, engine.request_s)
    if stages is not None and isinstance(cost, IterationCost):
        count = len(stages.layers)
        rows = [Record(0) for _ in range(replicas * count)]
        lines = [
            Pipeline(work, engine, limits, cost, stages, rows[at : at + count])
            for at in range(0, len(rows), count)
        ]
        for _ in drive(lines, coming, router(route), lines):
            pass
        return work.record, rows, np.array(work.replica) * count
    rows = [Record(0) for _ in range(replicas * ranks)]
    fleet = [replica_for(work, engine, limits, device_s, each) for each in rows]
    for _ in drive(fleet, coming, router(route), in_step(fleet, cost)):
        pass
    return work.record, rows, np.array(work.replica)


def ranks_of(cost: DeviceTime | IterationCost) -> int:
    """Ranks of a replica that attend to requests of their own."""
    return cost.ranks if isinstance(cost, IterationCost) else 1


def in_step(fleet: Sequence[Replica], cost: DeviceTime | IterationCost) -> Sequence[Worker]:
    """Ranks of the same replica together."""
    ranks = ranks_of(cost)
    if ranks == 1 or not isinstance(cost, IterationCost):
        return fleet
    return [Lockstep(fleet[at : at + ranks], cost) for at in range(0, len(fleet), ranks)]


def replica_for(
    work: Work, engine: Engine, limits: Limits, device_s: DeviceTime, rows: Record
) -> Replica:
    """A fresh replica of the sort that the limits ask for."""
    if limits.guess is None:
        return Replica(work, engine, limits, device_s, rows)
    from gpuscope.serving.speculation import Speculating

    return Speculating(work, engine, limits, device_s, rows)


LEAST_COMPILED = 50_000
"""Requests that are worth the half second in which numba is loaded."""


def _compiled(
    requests: Requests, engine: Engine, limits: Limits, cost: IterationCost
) -> tuple[Record, Record] | None:
    """Many requests of the common case; None: another case, or no numba."""
    other = len(requests.blocks) or len(requests.prefix) or limits.guess is not None
    if (
        len(requests) < LEAST_COMPILED
        or engine.scheduler != "vllm"
        or other
        or engine.look_steps > 1
    ):
        return None
    if find_spec("numba") is None:
        return None
    from gpuscope.serving.compiled import serve_compiled

    return serve_compiled(requests, engine, limits, cost)


def check_room(limits: Limits, most_tokens: int) -> None:
    """Each request must fit alone.

    Raises:
        DoesNotFitError: the longest one never will.
    """
    beside = limits.beside.of(most_tokens, limits.block_tokens) if limits.beside else 0
    if -(-most_tokens // limits.block_tokens) + beside > limits.kv_blocks:
        raise DoesNotFitError(
            Text("The longest request has {tokens} tokens.", tokens=most_tokens),
            Text(
                "Keys and values have room for {room}.", room=limits.kv_blocks * limits.block_tokens
            ),
            Text("Take more devices (--on, --tp), or shorter requests (--input, --answer)."),
        )
