"""Prompts and answers on devices of their own: times that add up, tokens that are all there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fresh import asked, bare, limits, linear
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuscope as gs
from gpuscope.errors import InvalidValueError
from gpuscope.hardware import device
from gpuscope.serving.disaggregated import Group, Link, link_between, serve_apart
from gpuscope.serving.schedulers import Limits

LINK = Link("wire", 1e9, 1e-5, 1000.0)


def group(replicas: int = 1, room: Limits | None = None, route: str = "round-robin") -> Group:
    return Group(
        engine=bare(), limits=room or limits(), cost=linear, replicas=replicas, route=route
    )


def test_one_request_by_hand() -> None:
    record, rows, where = serve_apart(asked([2.0], [101], [3]), group(), group(), LINK)
    prompt = linear(101, 101 * 102 / 2, 1, 0, 0.0)
    moved = 1e-5 + 100 * 1000 / 1e9
    last = linear(1, 100 + 1, 1, 0, 0.0)
    steps = linear(0, 0, 0, 1, 102.0) + linear(0, 0, 0, 1, 103.0)
    assert record.first[0] == pytest.approx(2.0 + prompt + moved + last)
    assert record.finished[0] == pytest.approx(2.0 + prompt + moved + last + steps)
    assert record.transfer[0] == pytest.approx(moved)
    assert list(where) == [1]
    assert [sum(each.rows[4]) for each in rows] == [101, 1]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 999), makers=st.integers(1, 3), talkers=st.integers(1, 3),
    blocks=st.integers(40, 400), places=st.integers(0, 9),
    route=st.sampled_from(["round-robin", "least-load", "prefix"]),
)  # fmt: skip
def test_times_add_up_and_no_token_is_lost(
    seed: int, makers: int, talkers: int, blocks: int, places: int, route: str
) -> None:
    random = np.random.default_rng(seed)
    requests = asked(
        list(np.cumsum(random.exponential(0.01, 50))),
        list(random.integers(1, 400, 50)),
        list(random.integers(1, 80, 50)),
        places,
    )
    room = limits(blocks, sequences=12, tokens=512)
    record, rows, _ = serve_apart(
        requests, group(makers, room, route), group(talkers, room, route), LINK
    )
    column = record.column
    parts = column("started") - column("intended")
    for name in ("prefill", "behind", "device", "host", "put_off", "transfer"):
        parts = parts + column(name)
    whole = column("finished") - column("intended")
    calm = column("preemptions") == 0
    assert np.allclose(parts[calm], whole[calm], rtol=1e-6, atol=1e-9)
    assert (column("transfer") > 0).all()
    decoded = sum(row[1] * row[5] for each in rows[makers:] for row in each.each())
    again = int(column("preemptions").sum())
    assert decoded + again >= (requests.output_tokens - 1).sum() >= decoded
    assert all(row[5] == 0 for each in rows[:makers] for row in each.each())


def test_a_slow_link_is_a_queue() -> None:
    requests = asked([0.0] * 10, [101] * 10, [2] * 10)
    slow = Link("string", 1e5, 0.0, 1000.0)  # a second each
    record, _, _ = serve_apart(requests, group(), group(), slow)
    assert np.diff(np.sort(record.column("first"))) == pytest.approx(1.0, rel=0.05)


def test_the_link_is_the_catalogue_s() -> None:
    h100, h200 = device("h100"), device("h200")
    inside = link_between(h100, h100, 4, (2, 2), 1e5)
    between = link_between(h100, h200, 4, (2, 1), 1e5)
    assert inside.bytes_per_s == 2 * 450e9
    assert between.bytes_per_s == 50e9  # the side with one port
    assert "InfiniBand" in between.name
    with pytest.raises(InvalidValueError, match="No link between"):
        link_between(h100, replace(h200, scale_out=None), 2, (1, 1), 1e5)


def test_through_the_front_door() -> None:
    how = {"rate": 6.0, "requests": 150, "input": 2048, "output": 64}
    run = gs.serve("llama-3.1-8b", prefill="2xh100", decode="2xh200", tp=1, **how)[0]
    assert run.devices == "2xnvidia-h100-sxm + 2xnvidia-h200-sxm"
    moved = 131072 * 2047 / 50e9  # bytes of a token; a port
    assert float(np.median(run.served.transfer_s)) == pytest.approx(moved, rel=0.02)
    assert (run.served.behind_s.mean() < gs.serve(
        "llama-3.1-8b", "2xh200", tp=1, **how)[0].served.behind_s.mean())  # fmt: skip
    with pytest.raises(InvalidValueError, match="both named"):
        gs.serve("llama-3.1-8b", prefill="h100", **how)
