"""Intervals under load: as wide as what the kernel models' own spread makes of them."""

from __future__ import annotations

import pytest

from gpuscope.serving.highest import slower
from gpuscope.serving.metrics import metrics
from gpuscope.serving.requests import Requests
from gpuscope.serving.simulate import Deployment, serve_requests
from gpuscope.serving.slices import first_of
from gpuscope.serving.verb import deployment, load_of, serve_load


@pytest.fixture(scope="module")
def found() -> Deployment:
    return deployment("llama-3.1-8b", "h200")


def _load(rate: float, requests: int = 500) -> Requests:
    return load_of(
        "poisson", rate=rate, concurrency=(), input="1024", output="256", requests=requests, seed=1
    )[0]


def test_a_queue_magnifies(found: Deployment) -> None:
    # The capacity is some 28 a second.
    calm, busy = (serve_load(found, _load(rate)).relative_error for rate in (2, 25))
    assert calm["tpot"] == pytest.approx(0.1, abs=0.03)
    assert calm["ttft"] == pytest.approx(0.25, abs=0.03)
    assert busy["ttft"] > calm["ttft"]
    assert busy["tpot"] > 2.5 * calm["tpot"]
    assert busy["e2e"] > 2.5 * calm["e2e"]
    assert busy["throughput"] == calm["throughput"]


@pytest.mark.parametrize("by", [1.1, 1 / 1.1])
def test_a_device_that_is_off_by_its_spread_is_within(found: Deployment, by: float) -> None:
    load = _load(22)
    made = serve_load(found, load)
    truth, mine = metrics(serve_requests(slower(found, by), load)), metrics(made)
    for name in ("ttft", "tpot", "e2e"):
        was, told = getattr(truth, name).p50_s, getattr(mine, name).p50_s
        wide = 1.001 * (1 + made.relative_error[name])
        assert told / wide <= was <= told * wide


def test_places_have_no_queue_that_grows(found: Deployment) -> None:
    load = _load(2).at_concurrency(16)
    assert serve_load(found, load).relative_error["tpot"] == 0.1


def test_the_first_of_a_load_are_the_same(found: Deployment) -> None:
    load = _load(5)
    some = first_of(load, 100)
    assert len(some) == 100
    assert (some.arrival_s == load.arrival_s[:100]).all()
    assert first_of(load, 500) is load
