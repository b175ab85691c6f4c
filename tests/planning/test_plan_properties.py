"""What must hold for every question: more never makes the best worse, equal questions are equal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from made import asked, judged, scored_alone

from gpuscope.errors import DoesNotFitError
from gpuscope.planning import search as searching
from gpuscope.planning.choice import choose
from gpuscope.planning.types import Plan, Question

FACTORS = st.floats(1.0, 8.0)
BESIDE: list[dict[str, str]] = [
    {},
    {"precision": "bf16,fp8"},
    {"states": "float32,bf16,8bit"},
    {"offload": "none,cpu"},
]
QUESTIONS = st.builds(
    lambda model, devices, batch, goal, simulate, beside: asked(
        model=model,
        devices=devices,
        global_batch=batch,
        goal=goal,
        simulate=simulate,
        on="h100",
        **beside,
    ),
    st.sampled_from(["llama-3.2-1b", "llama-3.1-8b", "qwen3-30b-a3b"]),
    st.sampled_from(["1", "8", "4..16"]),
    st.sampled_from([16, 24, 64]),
    st.sampled_from(["time", "cost", "energy"]),
    st.integers(1, 6),
    st.sampled_from(BESIDE),
)


QUICK = pytest.fixture(scope="module", autouse=True)(scored_alone)


def _best(question: Question) -> tuple[bool, float]:
    """Whether only what saves memory fits, and the goal's least figure; infinite: nothing does.

    What rounds more, or keeps things elsewhere, is worse than any plan that need not.
    """
    try:
        found = searching.search(question)
    except DoesNotFitError:
        return True, float("inf")
    least = found.ties[0].value(question.goal)
    assert least is not None
    return found.lightened != "", least


def _with(question: Question, **changes: object) -> Question:
    clusters = tuple(
        cluster.with_device(replace(cluster.device, **changes))  # type: ignore[arg-type]
        for cluster in question.clusters
    )
    return replace(question, clusters=clusters)


@settings(max_examples=10, deadline=None)
@given(QUESTIONS, FACTORS)
def test_more_memory_never_makes_the_best_worse(question: Question, factor: float) -> None:
    device = question.clusters[0].device
    more = int(device.memory_usable_bytes * factor)
    roomy = _with(question, memory_usable_bytes=more, memory_bytes=int(more * 1.1))
    assert _best(roomy) <= _best(question)


@settings(max_examples=5, deadline=None)
@given(QUESTIONS, FACTORS)
def test_more_bandwidth_never_makes_the_best_worse(question: Question, factor: float) -> None:
    link = question.clusters[0].device.scale_up
    assert link is not None
    bandwidth = link.bandwidth_bytes_per_s
    quick = _with(question, scale_up=link.with_bandwidth(bandwidth * factor))
    assert _best(quick) <= _best(question)


@settings(max_examples=4, deadline=None)
@given(QUESTIONS, st.floats(0.5, 0.99), st.floats(0.0, 0.5))
def test_a_looser_limit_never_makes_the_best_worse(
    question: Question, strict: float, less: float
) -> None:
    loose = replace(question, certainty=strict - less)
    assert _best(loose) <= _best(replace(question, certainty=strict))


@settings(max_examples=4, deadline=None)
@given(QUESTIONS)
def test_more_devices_to_choose_from_never_make_the_best_worse(question: Question) -> None:
    more = asked(model=question.model, on="h100", devices="1..16", goal=question.goal)
    wide = replace(
        question, clusters=more.clusters, simulated=question.simulated + len(more.clusters)
    )
    assert _best(wide) <= _best(question)


@settings(max_examples=4, deadline=None)
@given(QUESTIONS, st.sampled_from(BESIDE))
def test_more_choices_never_make_the_best_worse(question: Question, more: dict[str, str]) -> None:
    usual = replace(question, tries=())
    wide = replace(question, tries=asked(**more).tries, simulated=2 * question.simulated)
    assert _best(wide) <= _best(usual)


@settings(max_examples=4, deadline=None)
@given(QUESTIONS)
def test_equal_questions_have_equal_answers(question: Question) -> None:
    def answer() -> Plan:
        return replace(searching.search(question), scored_per_s=0.0)

    try:
        first = answer()
    except DoesNotFitError:
        assume(False)
    assert first == answer()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=8), st.floats(0.1, 10.0), st.data())
def test_one_more_candidate_never_makes_the_least_worse(
    steps: list[float], extra: float, data: st.DataObject
) -> None:
    few = [judged(step, dp=8, microbatches=n + 1) for n, step in enumerate(steps)]
    many = data.draw(st.permutations([*few, judged(extra, dp=4, tp=2)]))
    assert choose(many, "time")[1][0].step_s <= choose(few, "time")[1][0].step_s
