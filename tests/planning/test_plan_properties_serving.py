"""Serving: more never makes the best worse, equal questions are equal.

The quick score alone decides here, whose latencies have no chance in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.errors import DoesNotFitError
from gpuscope.planning.serving import search as searching
from gpuscope.planning.serving.search import question_of_serving, search_serving
from gpuscope.planning.serving.types import Offered, ServingQuestion


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    def simulated(question: ServingQuestion, each: Offered, found: object = None) -> Offered:
        return replace(each, simulated=True, energy_per_token_j=1.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "simulated", simulated)
        yield


def _asked(**given: Any) -> ServingQuestion:
    usual: dict[str, Any] = {"on": "h100", "devices": "1,2", "rate": 4.0, "answer": "64"}
    return question_of_serving(
        "llama-3.1-8b", **(usual | {"slo": "tpot<20ms", "simulate": 100} | given)
    )


def _best(question: ServingQuestion) -> float:
    """Dollars a million tokens; infinite where nothing keeps every limit."""
    try:
        best = search_serving(question).best
    except DoesNotFitError:
        return float("inf")
    return float("inf") if best is None or best.usd_per_million is None else best.usd_per_million


def _with(question: ServingQuestion, **changes: Any) -> ServingQuestion:
    clusters = tuple(
        each.with_device(replace(each.device, **changes)) for each in question.clusters
    )
    return replace(question, clusters=clusters)


@settings(max_examples=2, deadline=None)
@given(st.floats(6.0, 40.0), st.floats(1.0, 4.0), st.sampled_from([2.0, 20.0, 80.0]))
def test_more_of_a_device_or_a_looser_limit_never_makes_the_best_worse(
    tpot_ms: float, factor: float, rate: float
) -> None:
    question = _asked(slo=f"tpot<{tpot_ms:.6f}ms", rate=rate)
    best = _best(question)
    device = question.clusters[0].device
    more = int(device.memory_usable_bytes * factor)
    assert _best(_with(question, memory_usable_bytes=more)) <= best
    assert device.memory_bandwidth_bytes_per_s is not None
    quick = device.memory_bandwidth_bytes_per_s * factor
    assert _best(_with(question, memory_bandwidth_bytes_per_s=quick)) <= best
    assert _best(_asked(slo=f"tpot<{tpot_ms * factor:.6f}ms", rate=rate)) <= best
    assert _best(_asked(slo=f"tpot<{tpot_ms:.6f}ms", rate=rate / factor)) * rate / factor <= (
        best * rate * (1 + 1e-9)
    )
    assert _best(replace(question, certainty=0.8 / factor)) <= best


def test_more_to_choose_from_never_makes_the_best_worse() -> None:
    few = _best(_asked(devices="2"))
    assert _best(_asked(devices="1,2")) <= few
    assert _best(_asked(devices="2", on="h100,h200")) <= few
    assert _best(_asked(devices="2", dtype="bfloat16,fp8")) <= few
    assert _best(_asked(devices="2", kv_dtype="bfloat16,fp8")) <= few


def test_equal_questions_have_equal_answers() -> None:
    question = _asked()
    assert search_serving(question) == search_serving(question)
