"""Fine-tuning: more never makes the best worse, equal questions are equal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import tuned_alone

from gpuscope.planning.limits import OverLimitError
from gpuscope.planning.tuning.search import question_of_tuning, search_tuning
from gpuscope.planning.tuning.types import TuningQuestion

TUNED = pytest.fixture(scope="module", autouse=True)(tuned_alone)

MANY = 200
"""Candidates simulated, so that none is left out."""


def _asked(**given: Any) -> TuningQuestion:
    usual: dict[str, Any] = {"on": "rtx-4090", "devices": "1,4", "global_batch": 16, "seq": 512}
    return question_of_tuning("llama-3.1-8b", **(usual | {"simulate": MANY} | given))


QUESTIONS = st.builds(
    lambda method, devices, goal: _asked(method=method, devices=devices, goal=goal),
    st.sampled_from(["lora", "qlora", "lora,qlora,full"]),
    st.sampled_from(["1", "8", "1..4"]),
    st.sampled_from(["time", "energy"]),
)


def _best(question: TuningQuestion) -> float:
    try:
        found = search_tuning(question)
    except OverLimitError:
        return float("inf")
    value = found.ties[0].value(question.goal) if found.ties else None
    return float("inf") if value is None else value


def _with(question: TuningQuestion, **changes: Any) -> TuningQuestion:
    clusters = tuple(
        each.with_device(replace(each.device, **changes)) for each in question.clusters
    )
    return replace(question, clusters=clusters)


@settings(max_examples=8, deadline=None)
@given(QUESTIONS, st.floats(1.0, 8.0))
def test_more_memory_never_makes_the_best_worse(question: TuningQuestion, factor: float) -> None:
    more = int(question.clusters[0].device.memory_usable_bytes * factor)
    assert _best(_with(question, memory_usable_bytes=more)) <= _best(question)


@settings(max_examples=8, deadline=None)
@given(QUESTIONS, st.floats(1.0, 8.0))
def test_more_bandwidth_never_makes_the_best_worse(question: TuningQuestion, factor: float) -> None:
    bandwidth = question.clusters[0].device.memory_bandwidth_bytes_per_s
    assert bandwidth is not None
    quick = _with(question, memory_bandwidth_bytes_per_s=bandwidth * factor)
    assert _best(quick) <= _best(question)


@settings(max_examples=6, deadline=None)
@given(QUESTIONS, st.floats(0.5, 0.99), st.floats(0.0, 0.5), st.floats(1.0, 30.0))
def test_a_looser_limit_never_makes_the_best_worse(
    question: TuningQuestion, strict: float, less: float, most_s: float
) -> None:
    loose = replace(question, certainty=strict - less)
    assert _best(loose) <= _best(replace(question, certainty=strict))
    tight, wide = (
        replace(question, limits=_asked(limit=f"time<{most:.6f}s").limits)
        for most in (most_s, 2 * most_s)
    )
    assert _best(wide) <= _best(tight)


def test_more_to_choose_from_never_makes_the_best_worse() -> None:
    few = _best(_asked(method="lora", devices="1"))
    assert _best(_asked(method="lora,qlora,full", devices="1")) <= few
    assert _best(_asked(method="lora", devices="1..8")) <= few
    assert _best(_asked(method="lora", devices="1", on="rtx-4090,h100")) <= few


def test_equal_questions_have_equal_answers() -> None:
    question = _asked(method="lora,qlora,full", simulate=6)
    assert search_tuning(question) == search_tuning(question)
