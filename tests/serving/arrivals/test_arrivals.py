"""Loads: the rates that were asked for, the same from the same seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plain_load import LOAD

from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.program.lengths import Lengths, parse_lengths
from gpuscope.serving.arrivals import kinds, make_requests
from gpuscope.serving.requests import Requests


def test_all_are_there() -> None:
    assert list(kinds()) == ["constant", "conversations", "gamma", "poisson", "steps"]


@pytest.mark.parametrize("kind", [each.form or name for name, each in kinds().items()])
def test_a_kind_makes_the_load_as_it_is_typed(kind: str) -> None:
    found = make_requests(replace(LOAD, arrivals=kind, seed=3))
    assert (len(found), found.seed, found.arrival_s[0] >= 0) == (20_000, 3, True)
    assert found.name
    same = make_requests(replace(LOAD, arrivals=kind, seed=3))
    assert (found.arrival_s == same.arrival_s).all()


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
    "wrong", [{"rate_per_s": 0.0}, {"count": 0}, {"concurrency": -1}, {"seed": -1}]
)
def test_loads_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError):
        make_requests(replace(LOAD, **wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("arrivals", ["poison", "poisson:8", "steps", "", ":", "__init__"])
@pytest.mark.parametrize("concurrency", [0, 4])
def test_unknown_arrivals(arrivals: str, concurrency: int) -> None:
    with pytest.raises(UnknownNameError, match=r"kind of arrivals.*(poisson|steps:2x30)"):
        make_requests(replace(LOAD, arrivals=arrivals, concurrency=concurrency))


@pytest.mark.parametrize(
    ("times", "tokens", "word"),
    [([], [], "no request"), ([1.0, 0.5], [1, 1], "Request 2"), ([-1.0], [1], "cannot be -1"),
     ([0.0], [0], "cannot be 0"), ([0.0, 1.0], [1], "there are 2")],
)  # fmt: skip
def test_requests_that_cannot_be(times: list[float], tokens: list[int], word: str) -> None:
    with pytest.raises(InvalidValueError, match=word):
        Requests(np.array(times, float), np.array(tokens, int), np.array(tokens, int))
