"""Speculative decoding: tokens of a step by the acceptance, none lost, none gained."""

from __future__ import annotations

import numpy as np
import pytest
from fresh import asked, limits, run
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuscope as gs
from gpuscope.errors import InvalidValueError
from gpuscope.serving.metrics import metrics
from gpuscope.serving.record import Record
from gpuscope.serving.speculation import Guess, parse_guess


def steps(record: Record) -> int:
    """Of sequences, all together."""
    return sum(row[1] * row[5] for row in record.each())


@pytest.mark.parametrize(("accept", "each"), [(0.0, 1), (1.0, 4)])
def test_the_ends(accept: float, each: int) -> None:
    found = run(asked([0.0] * 8, [50] * 8, [81] * 8), limits(guess=Guess(3, accept)))
    assert steps(found) == 8 * 80 // each


def test_the_mean_is_that_of_the_formula() -> None:
    for k, accept in ((2, 0.5), (4, 0.8)):
        guess = Guess(k, accept)
        found = run(asked([0.0] * 40, [50] * 40, [1001] * 40), limits(guess=guess))
        assert 40_000 / steps(found) == pytest.approx(guess.tokens_per_step, rel=0.02)


def test_nothing_accepted_costs_what_the_plain_way_costs_and_the_wider_step() -> None:
    requests = asked([0.0], [100], [50])
    plain, guessed = (run(requests, limits(guess=g)) for g in (None, Guess(2, 0.0)))
    wider = 2 * 2e-5 * 49  # two tokens more in each of 49 steps, as `linear` has it
    assert guessed.finished[0] - plain.finished[0] == pytest.approx(wider, rel=1e-6)
    drafts = run(requests, limits(guess=Guess(2, 0.0, 0.5)))
    assert drafts.finished[0] > guessed.finished[0] + 49 * 1e-3


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 999), k=st.integers(1, 6), accept=st.floats(0, 1),
    blocks=st.integers(33, 300), tokens=st.integers(60, 900),
    name=st.sampled_from(["vllm", "sglang", "tensorrt-llm", "static"]),
)  # fmt: skip
def test_whatever_is_set_all_is_served(
    seed: int, k: int, accept: float, blocks: int, tokens: int, name: str
) -> None:
    random = np.random.default_rng(seed)
    requests = asked(
        list(np.cumsum(random.exponential(0.01, 30))),
        list(random.integers(1, 400, 30)),
        list(random.integers(1, 100, 30)),
    )
    room = limits(blocks, 8, tokens, guess=Guess(k, accept))
    found = run(requests, room, name)
    assert np.isfinite(found.column("finished")).all()
    assert max(row[6] for row in found.each()) <= blocks
    most = int((requests.output_tokens - 1).sum())
    assert most / (k + 1) - found.column("preemptions").sum() <= steps(found) <= most


def test_through_the_front_door() -> None:
    how = {"concurrency": [2], "requests": 30, "output": 200}
    plain = metrics(gs.serve("llama-3.1-8b", "h200", **how)[0])
    one, same = (gs.serve("llama-3.1-8b", "h200", speculate="k=3,accept=0.7", **how) for _ in "ab")
    quick = metrics(one[0])
    assert quick == metrics(same[0])
    assert quick.tpot.p50_s is not None
    assert plain.tpot.p50_s is not None
    assert 0.35 < quick.tpot.p50_s / plain.tpot.p50_s < 0.6  # 2.53 tokens a step, little dearer


@pytest.mark.parametrize("text", ["3", "k=0,accept=0.5", "k=3", "k=3,accept=1.1", "k=2.5,accept=1"])
def test_what_cannot_be(text: str) -> None:
    with pytest.raises(InvalidValueError, match="is no way to draft"):
        parse_guess(text)
