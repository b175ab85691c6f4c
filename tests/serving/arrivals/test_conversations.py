"""Turns of conversations: rates, growing prompts, the same for client and simulator."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import gpuscope as gs
from gpuscope.errors import InvalidValueError
from gpuscope.program.lengths import parse_lengths
from gpuscope.serving.arrivals import Load, make_requests
from gpuscope.serving.client.prompts import Form, Prompts
from gpuscope.serving.verb import load_of

LOAD = Load(
    input=parse_lengths("100..300"), output=parse_lengths("50"), count=4000, rate_per_s=8.0,
    arrivals="conversations:5x20",
)  # fmt: skip


def test_each_prompt_begins_with_all_that_was_said() -> None:
    found = make_requests(LOAD)
    for who in range(20):
        turns = np.flatnonzero(found.session == who)
        more = np.diff(found.input_tokens[turns])
        assert ((more >= 150) & (more <= 350)).all()
    middle = (found.arrival_s > 100) & (found.arrival_s < 400)
    assert middle.sum() / 300 == pytest.approx(8, rel=0.15)
    assert len(found) == 4000


def test_a_client_and_the_simulator_ask_for_the_same() -> None:
    how = {"input": "100..300", "output": "50", "requests": 60, "seed": 3}
    mine = load_of("conversations:5x20", rate=8.0, concurrency=(), **how)[0]  # type: ignore[arg-type]
    theirs = make_requests(replace(LOAD, count=60, seed=3))
    for column in ("arrival_s", "input_tokens", "output_tokens", "session", "prefix_tokens"):
        assert (getattr(mine, column) == getattr(theirs, column)).all()
    made = Prompts(theirs, "m", Form(api="completions", sort="ids"))
    who = int(np.bincount(theirs.session).argmax())
    turns = np.flatnonzero(theirs.session == who)
    assert len(turns) > 1
    prompts = [json.loads(made.body(int(row))[0])["prompt"] for row in turns]
    for before, after in pairwise(prompts):
        assert after[: len(before)] == before
        assert len(after) > len(before)


def test_earlier_prompts_are_found_in_the_cache() -> None:
    run = gs.serve(
        "llama-3.1-8b", "h200", arrivals="conversations:4x5", rate=4, requests=400, input=200,
        output=40,
    )[0]  # fmt: skip
    served = run.served
    # A first turn finds nothing, the others all full blocks of the prompt before (240 shorter).
    expected = np.where(served.input_tokens > 200, (served.input_tokens - 240) // 16 * 16, 0)
    assert (np.abs(served.cached_tokens - expected) <= 16).mean() > 0.97
    plain = gs.serve(
        "llama-3.1-8b", "h200", arrivals="conversations:1x5", rate=4, requests=100, input=200
    )[0]
    assert not plain.served.cached_tokens.any()


def test_capacity_counts_prompts_that_are_new() -> None:
    how = {"rate": 400, "requests": 300, "input": 2000, "output": 16}
    talk = gs.serve("llama-3.1-8b", "h200", arrivals="conversations:1x5", **how)[0]
    plain = gs.serve("llama-3.1-8b", "h200", **how)[0]
    assert talk.capacity_per_s == pytest.approx(plain.capacity_per_s, rel=0.1)


@pytest.mark.parametrize("text", ["0x5", "5", "5x0", "5x", "-1x3", "ax2", "5x1e9"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(InvalidValueError, match="no conversations"):
        make_requests(replace(LOAD, arrivals=f"conversations:{text}"))


@pytest.mark.parametrize("wrong", [{"concurrency": 4}, {"shared_tokens": 100}])
def test_no_places_and_no_other_beginning(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidValueError, match="come at a rate"):
        make_requests(replace(LOAD, **wrong))
