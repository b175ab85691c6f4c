"""Routers: who gets a request, and what it is worth."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fresh import asked, bare, limits, linear

import gpuscope as gs
from gpuscope.errors import UnknownNameError
from gpuscope.serving.fleet import serve_all
from gpuscope.serving.requests import Requests
from gpuscope.serving.routers import router, routers
from gpuscope.serving.work import Work


def replicas(loads: list[int], work: Work | None = None) -> Any:
    """Stand-ins: so many requests in each."""
    return [
        SimpleNamespace(waiting=range(load), late=(), partial={}, decoding={}, work=work)
        for load in loads
    ]


def test_all_are_there() -> None:
    assert routers() == ("least-load", "least-waiting", "prefix", "round-robin")
    with pytest.raises(UnknownNameError, match="least-load"):
        router("least")


def test_round_robin_goes_round() -> None:
    one = router("round-robin")
    assert [one.choose(at, replicas([9, 0, 0])) for at in range(5)] == [0, 1, 2, 0, 1]


def test_least_load_takes_the_shortest_queue() -> None:
    assert router("least-load").choose(0, replicas([3, 1, 2, 1])) == 1


def test_least_waiting_counts_who_waits_four_times() -> None:
    some = replicas([1, 0])
    some[1].decoding = dict.fromkeys(range(3))
    assert router("least-waiting").choose(0, some) == 1
    some[1].decoding = dict.fromkeys(range(4))
    assert router("least-waiting").choose(0, some) == 0


def test_prefix_stays_with_its_beginning_until_the_load_is_uneven() -> None:
    requests = Requests(
        np.zeros(6), np.full(6, 320), np.full(6, 5),
        prefix=np.array([0, 1, 0, 1, 0, 1]), prefix_tokens=np.full(6, 320),
    )  # fmt: skip
    work, one = Work(requests, bare(), limits()), router("prefix")
    assert [one.choose(at, replicas([0, 0], work)) for at in range(4)] == [0, 1, 0, 1]
    assert one.choose(4, replicas([100, 10], work)) == 1  # 90 more, ten times as many
    assert one.choose(5, replicas([60, 10], work)) == 1


def skewed(count: int = 200) -> Requests:
    """Long and short answers in turn: round robin gives all long ones to one of two."""
    return asked([0.02 * at for at in range(count)], [64] * count, [400, 20] * (count // 2))


@pytest.mark.parametrize("name", routers())
def test_every_request_is_served_once(name: str) -> None:
    requests = skewed()
    record, rows, where = serve_all(requests, bare(), limits(), linear, replicas=3, route=name)
    assert np.isfinite(record.column("finished")).all()
    assert set(where) <= {0, 1, 2}
    prompts = sum(sum(each.rows[4]) for each in rows)
    assert prompts == requests.input_tokens.sum()
    steps = sum(row[1] * row[5] for each in rows for row in each.each())
    assert steps == (requests.output_tokens - 1).sum()


def test_least_load_waits_less_than_round_robin_where_sizes_alternate() -> None:
    room = limits(sequences=4)
    worst = {}
    for name in ("round-robin", "least-load"):
        record, _, _ = serve_all(skewed(), bare(), room, linear, replicas=2, route=name)
        worst[name] = float(np.mean(record.column("finished") - record.column("intended")))
    assert worst["least-load"] < 0.8 * worst["round-robin"]


def test_prefixes_hit_more_where_they_stay() -> None:
    random = np.random.default_rng(1)
    requests = Requests(
        np.cumsum(random.exponential(0.05, 300)), np.full(300, 600), np.full(300, 8),
        prefix=random.integers(0, 6, 300), prefix_tokens=np.full(300, 512),
    )  # fmt: skip
    hits = {}
    for name in ("round-robin", "prefix"):
        record, _, _ = serve_all(requests, bare(), limits(150), linear, replicas=3, route=name)
        hits[name] = int(record.column("cached").sum())
    assert hits["prefix"] > 1.3 * hits["round-robin"]


def test_replicas_through_the_front_door() -> None:
    asked_for: dict[str, Any] = {"rate": 8.0, "requests": 120, "tp": 1, "replicas": 2}
    by = {
        name: gs.serve("llama-3.1-8b", "2xh200", router=name, **asked_for)[0] for name in routers()
    }
    for run in by.values():
        assert set(run.served.replica) == {0, 1}
        assert len(run.iterations.start_s) == len(run.iterations.replica)
    with pytest.raises(UnknownNameError, match="round-robin"):
        gs.serve("llama-3.1-8b", "2xh200", router="random", **asked_for)
    with pytest.raises(UnknownNameError, match="priority"):
        gs.serve("llama-3.1-8b", "2xh200", policy="lpm", **asked_for)
