"""Loads: the rates that were asked for, the same from the same seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.program.lengths import Lengths, parse_lengths
from gpuscope.serving.arrivals import Load, make_requests
from gpuscope.serving.requests import Requests

LOAD = Load(
    input=parse_lengths("100..300"), output=parse_lengths("lognormal:200,0.8"), count=20_000,
    rate_per_s=8.0,
)  # fmt: skip


@pytest.mark.parametrize(("kind", "cv"), [("poisson", 1.0), ("gamma", 2.0), ("constant", 0.0)])
def test_rates_and_burstiness(kind: str, cv: float) -> None:
    found = make_requests(replace(LOAD, arrivals=kind, burstiness=4.0))
    gaps = np.diff(found.arrival_s)
    assert gaps.mean() == pytest.approx(1 / 8, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.05, abs=1e-6)


def test_a_seed_is_a_load_and_lengths_do_not_hang_on_the_rate() -> None:
    one, same = make_requests(LOAD), make_requests(LOAD)
    assert (one.arrival_s == same.arrival_s).all()
    faster = make_requests(replace(LOAD, rate_per_s=16.0))
    assert (one.output_tokens == faster.output_tokens).all()
    assert (make_requests(replace(LOAD, seed=1)).input_tokens != one.input_tokens).any()


def test_lengths() -> None:
    found = make_requests(LOAD)
    assert found.input_tokens.min() == 100
    assert found.input_tokens.max() == 300
    assert found.output_tokens.mean() == pytest.approx(200, rel=0.05)
    assert parse_lengths("128") == Lengths("fixed", 128)


def test_steps_change_the_rate() -> None:
    found = make_requests(replace(LOAD, arrivals="steps:10x20,50x20", count=1500))
    early = (found.arrival_s < 20).sum()
    late = ((found.arrival_s >= 20) & (found.arrival_s < 40)).sum()
    assert early == pytest.approx(200, rel=0.25)
    assert late == pytest.approx(1000, rel=0.15)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"rate_per_s": float("nan")}, "rate = nan cannot be. Give a rate"),
        ({"count": 0}, "requests = 0 cannot be. Give requests a positive"),
    ],
)
def test_what_cannot_be_is_named_as_it_was_typed(wrong: dict[str, float], told: str) -> None:
    with pytest.raises(InvalidValueError, match=told):
        make_requests(replace(LOAD, **wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["0", "-1", "9..3", "x", "lognormal:5", "1e3"])
def test_lengths_that_are_none(text: str) -> None:
    with pytest.raises(InvalidValueError, match="no number of tokens"):
        parse_lengths(text)


@pytest.mark.parametrize(
    "wrong", [{"rate_per_s": 0.0}, {"count": 0}, {"concurrency": -1}, {"arrivals": "steps:1"}]
)
def test_loads_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError):
        make_requests(replace(LOAD, **wrong))  # type: ignore[arg-type]


def test_unknown_arrivals() -> None:
    with pytest.raises(UnknownNameError, match="poisson"):
        make_requests(replace(LOAD, arrivals="poison"))


@pytest.mark.parametrize(
    ("times", "tokens", "word"),
    [([], [], "no request"), ([1.0, 0.5], [1, 1], "Request 2"), ([-1.0], [1], "cannot be -1"),
     ([0.0], [0], "cannot be 0"), ([0.0, 1.0], [1], "there are 2")],
)  # fmt: skip
def test_requests_that_cannot_be(times: list[float], tokens: list[int], word: str) -> None:
    with pytest.raises(InvalidValueError, match=word):
        Requests(np.array(times, float), np.array(tokens, int), np.array(tokens, int))
