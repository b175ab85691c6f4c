"""Prompts on some devices, answers on others, keys and values moved between them.

As vLLM does it with a connector and a proxy (vllm/distributed/kv_transfer, its examples): a request
goes to a prefill replica for one token, which nobody gets; then to a decode replica, which fetches
the keys and values of all of the prompt but its last token, works on that one, and makes every
token of the answer. A prefill replica sends one request after the other. Its blocks are free once
its work is done: during a transfer they are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf

import numpy as np

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.hardware import Device
from gpuscope.hardware.cluster import build_cluster
from gpuscope.serving.batch import DeviceTime
from gpuscope.serving.engine import Engine
from gpuscope.serving.fleet import Arrivals, Worker, check_room, in_step, ranks_of, replica_for
from gpuscope.serving.iteration import IterationCost
from gpuscope.serving.record import SUMS, Record
from gpuscope.serving.replica import Replica
from gpuscope.serving.requests import Ints, Requests
from gpuscope.serving.routers import Router, router
from gpuscope.serving.schedulers import Limits
from gpuscope.serving.work import Work


@dataclass(frozen=True, slots=True)
class Link:
    """What keys and values of a prompt go over.

    Attributes:
        name: in the catalogue.
        bytes_per_s: from one prefill replica to one decode replica.
        latency_s: of a message.
        token_bytes: of a prompt's token, all ranks together.
    """

    name: str
    bytes_per_s: float
    latency_s: float
    token_bytes: float

    def takes_s(self, tokens: int) -> float:
        """The keys and values of so many tokens, at the link's nominal rate."""
        return self.latency_s + tokens * self.token_bytes / self.bytes_per_s


def link_between(
    here: Device, there: Device, devices: int, ports: tuple[int, int], token_bytes: float
) -> Link:
    """The link between two groups: inside a node where all fit one, the fabric otherwise.

    Args:
        here, there: kinds of devices.
        devices: of both groups together.
        ports: ranks of a replica here, and there: each sends, or gets, over its own.
        token_bytes: of a token's keys and values, all ranks together.

    Raises:
        InvalidValueError: the catalogue knows no link between them.
    """
    inside = here.scale_up
    if here.id == there.id and devices <= (here.devices_per_node or 1) and inside is not None:
        rate = inside.bandwidth_bytes_per_s
        if rate:
            return Link(inside.name, min(ports) * rate, inside.latency_s or 0.0, token_bytes)
    rates, latency, name = [], 0.0, ""
    for device, count in zip((here, there), ports, strict=True):
        if device.scale_out is not None:
            wide = build_cluster(device, 2 * (device.devices_per_node or 1))
            if wide.scale_out_bandwidth_bytes_per_s:
                rates.append(count * wide.scale_out_bandwidth_bytes_per_s)
                latency = max(latency, wide.scale_out_latency_s or 0.0)
                name = name or device.scale_out.name
    if len(rates) < 2:
        raise InvalidValueError(
            Text("No link between {here} and {there} is known.", here=here.name, there=there.name),
            Text("Keys and values have to move from one to the other."),
            Text("Name devices of one node: --prefill 2xh100 --decode 2xh100"),
        )
    return Link(name, min(rates), latency, token_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Equal replicas.

    Attributes:
        engine, limits, cost: of each.
        replicas: how many.
        route: name of the router in front of them.
    """

    engine: Engine
    limits: Limits
    cost: DeviceTime | IterationCost
    replicas: int
    route: str = "round-robin"

    def made(self, work: Work) -> list[Replica]:
        """Fresh replicas for some work, or their ranks."""
        check_room(self.limits, max(i + o for i, o in zip(work.inputs, work.outputs, strict=True)))
        cost = self.cost
        device_s = cost.device_s if isinstance(cost, IterationCost) else cost
        return [
            replica_for(work, self.engine, self.limits, device_s, Record(0))
            for _ in range(self.replicas * ranks_of(cost))
        ]


def serve_apart(
    requests: Requests, prefill: Group, decode: Group, link: Link
) -> tuple[Record, list[Record], Ints]:
    """Serve requests: what became of them, iterations of each replica or rank (prefill's first),
    and which one that decodes, counted after prefill's, served which.

    Raises:
        DoesNotFitError: a request that keys and values have no room for.
    """
    once = replace(requests, output_tokens=np.ones(len(requests), np.int64))
    first = Work(once, prefill.engine, prefill.limits)
    brought = [tokens - 1 for tokens in first.inputs]
    second = Work(requests, decode.engine, decode.limits, brought)
    makers, talkers = prefill.made(first), decode.made(second)
    handed = _Handed(first, link, len(makers))
    coming = Arrivals(requests, prefill.engine.request_s)
    routes = router(prefill.route), router(decode.route)
    workers = (*in_step(makers, prefill.cost), *in_step(talkers, decode.cost))
    while _one_event(coming, handed, makers, talkers, routes, workers):
        pass
    record = _joined(first.record, second.record, handed)
    where = len(makers) + np.array(second.replica)
    return record, [each.rows for each in (*makers, *talkers)], where


class _Handed:
    """Requests on their way: one after the other from each prefill replica."""

    def __init__(self, work: Work, link: Link, makers: int) -> None:
        self.work, self.link = work, link
        self.free_s = [0.0] * makers
        self.heap: list[tuple[float, int]] = []
        self.ready_s, self.at_s = np.zeros(len(work.inputs)), np.zeros(len(work.inputs))

    def send(self, each: int, ready_s: float, at: int) -> None:
        """A prompt is through on that prefill replica."""
        self.ready_s[each] = ready_s
        begin = max(ready_s, self.free_s[at])
        self.at_s[each] = begin + self.link.takes_s(self.work.inputs[each] - 1)
        self.free_s[at] = self.at_s[each]
        heappush(self.heap, (self.at_s[each], each))

    def next_s(self) -> float:
        return self.heap[0][0] if self.heap else inf


def _one_event(
    coming: Arrivals,
    handed: _Handed,
    makers: Sequence[Replica],
    talkers: Sequence[Replica],
    routes: tuple[Router, Router],
    workers: Sequence[Worker],
) -> bool:
    """Whoever is furthest behind works, or the next request is sent; False: all is done."""
    until = min(coming.next_s(), handed.next_s())
    behind = [each for each in workers if each.busy and each.now < until]
    if behind:
        one = min(behind, key=lambda each: each.now)
        one.step(until)
        for each in one.take_ended():
            at_s = one.record.finished[each]
            if one.work is handed.work:
                handed.send(each, at_s - one.engine.reply_s, one.work.replica[each])
            else:
                coming.freed(each, at_s)
    elif until == inf:
        return False
    elif coming.next_s() <= handed.next_s():
        at_s, each, intended = coming.pop()
        _send(each, makers, routes[0], intended, at_s)
    else:
        at_s, each = heappop(handed.heap)
        _send(each, talkers, routes[1], at_s, at_s)
    return True


def _send(
    each: int, replicas: Sequence[Replica], route: Router, intended: float, at_s: float
) -> None:
    at = route.choose(each, replicas) if len(replicas) > 1 else 0
    replicas[at].work.replica[each] = at
    replicas[at].join(each, intended, at_s)


def _joined(first: Record, second: Record, handed: _Handed) -> Record:
    """One record of both: a request waits in two queues, and its times add up."""
    made = Record(len(handed.at_s))
    waited = second.column("started") - handed.at_s
    made.column("intended")[:] = first.column("intended")
    made.column("started")[:] = first.column("started") + waited
    for name in ("first", "finished"):
        made.column(name)[:] = second.column(name)
    for name in (*SUMS, "preemptions"):
        made.column(name)[:] = first.column(name) + second.column(name)
    made.column("cached")[:] = first.column("cached")
    made.column("transfer")[:] = handed.at_s - handed.ready_s
    return made
