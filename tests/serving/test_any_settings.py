"""Random engines, rooms, loads, clusters: nothing hangs, no time is negative, no token is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fresh import bare, joint, limits, linear

from gpuscope.serving.disaggregated import Group, Link, serve_apart
from gpuscope.serving.engine import Engine, engine, engines
from gpuscope.serving.fleet import serve_all
from gpuscope.serving.iteration import Curve, IterationCost, Stages
from gpuscope.serving.record import SUMS, Record
from gpuscope.serving.requests import Requests
from gpuscope.serving.routers import routers
from gpuscope.serving.schedulers import Limits
from gpuscope.serving.speculation import Guess

Cost = Callable[[int, float, int, int, float], float] | IterationCost
WAYS = [(name, policy) for name in engines() for policy in engine(name).policies or (None,)]


def _requests(random: np.random.Generator, seed: int) -> tuple[Requests, bool]:
    """A load, and whether prompts share something."""
    count, sort = int(random.integers(1, 25)), random.random()
    inputs, outputs = random.integers(1, 300, count), random.integers(1, 60, count)
    more: dict[str, Any] = {}
    if sort < 0.3:
        most = np.minimum(inputs, random.integers(1, 300))
        more = {"prefix": random.integers(-1, 3, count), "prefix_tokens": most}
    elif sort < 0.4:
        each = random.integers(0, 6, count)
        more = {
            "blocks": random.integers(0, 8, int(each.sum())),
            "block_start": np.concatenate(([0], np.cumsum(each))),
            "block_tokens": 64,
        }
    if random.random() < 0.3:
        more["priority"] = random.integers(0, 3, count)
    gaps = random.exponential(1 / random.choice([5.0, 50.0, 500.0, 5000.0]), count)
    made = Requests(np.cumsum(gaps), inputs, outputs, seed=seed, **more)
    if random.random() < 0.3:
        made = made.at_concurrency(int(random.integers(1, 10)))
    return made, sort < 0.4


def _room(random: np.random.Generator, requests: Requests, how: Engine) -> Limits:
    size = int(random.choice([1, 4, 16, 64]))
    longest = int((requests.input_tokens + requests.output_tokens).max())
    guess = Guess(int(random.integers(1, 5)), float(random.random()), 0.1)
    return limits(
        -(-longest // size) + int(random.choice([0, 1, 3, 20, 500])),
        int(random.integers(1, 20)),
        int(random.integers(1, 600)),
        chunked=bool(random.random() < 0.7),
        block_tokens=size,
        reserve=how.reserve,
        reserve_least=how.reserve_least,
        reserve_steps=how.reserve_steps,
        reserve_ahead=how.reserve_ahead,
        guess=guess if random.random() < 0.25 else None,
        sizes=tuple(random.integers(1, 9, 2).tolist()) if random.random() < 0.5 else (),
        delay_s=float(random.choice([0, 0.001, 0.1])),
    )


def _checked(
    requests: Requests, room: Limits, record: Record, rows: list[Record], worked: int | None
) -> None:
    column = record.column
    for sooner, later in (("intended", "started"), ("started", "first"), ("first", "finished")):
        assert (column(sooner) <= column(later) + 1e-9).all()
    assert np.isfinite(column("finished")).all()
    assert all((column(name) >= -1e-9).all() for name in SUMS)
    each = [row for one in rows for row in one.each()]
    decoded, most = sum(row[1] * row[5] for row in each), int((requests.output_tokens - 1).sum())
    again, most_each = int(column("preemptions").sum()), room.guess.drafted + 1 if room.guess else 1
    assert most / most_each - again <= decoded <= most
    if worked is not None and not again:
        assert sum(row[4] for row in each) == worked
    assert all(0 <= row[6] <= room.kv_blocks for row in each)
    assert all((np.diff(np.asarray(one.rows[0])) > 0).all() for one in rows)


def _tried(seed: int) -> None:
    random = np.random.default_rng(seed)
    requests, shared = _requests(random, seed)
    name, policy = WAYS[random.integers(len(WAYS))]
    how = replace(bare(name).with_policy(policy), prefix_cache=bool(random.random() < 0.7))
    how = replace(how, overlapped=not seed % 2, token_s=seed // 2 % 2 * 2e-4)
    how = replace(how, send_s=seed // 4 % 2 * 1e-4, front_turns=1 + seed % 7)
    how = replace(how, accept_s=seed // 8 % 2 * 2e-3)
    if name == "static" and random.random() < 0.5:
        how = replace(how, scheduler="triton")
    room, count = _room(random, requests, how), int(random.integers(1, 4))
    route, prompts = str(random.choice(routers())), int(requests.input_tokens.sum())
    cost: Cost = linear
    if room.guess is None and how.scheduler not in ("static", "triton") and not seed % 3:
        cost = joint(2 + seed % 4, graph_sizes=(1, 4, 8) if seed % 5 else ())
    elif room.guess is None and how.scheduler not in ("static", "triton") and seed % 3 == 1:
        cost = joint(1, stages=Stages((2, 3, 1)[: 1 + seed % 3], Curve((0.0, 1.0), (1e-4, 1e-4))))
    if random.random() < 0.2 and (cost is linear or not seed % 3):
        group = Group(engine=how, limits=room, cost=cost, replicas=count, route=route)
        link = Link("any", float(random.choice([1e5, 1e9])), 1e-6, 1000.0)
        record, rows, _ = serve_apart(requests, group, replace(group, replicas=2), link)
        prompts += len(requests)
    else:
        record, rows, _ = serve_all(requests, how, room, cost, replicas=count, route=route)
    _checked(requests, room, record, rows, None if shared else prompts)


@pytest.mark.parametrize("first", range(0, 240, 40))
def test_some_settings(first: int) -> None:
    for seed in range(first, first + 40):
        _tried(seed)


def test_a_prompt_whose_cache_made_room_after_the_plan() -> None:
    _tried(35109)
    _tried(48800)


@pytest.mark.slow
def test_100_000_settings() -> None:
    for seed in range(100_000):
        _tried(seed)
