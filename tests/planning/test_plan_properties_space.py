"""What must hold for every list of candidates: none of it beats the front, more never harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from made import asked, scored_alone

from gpuscope.errors import DoesNotFitError
from gpuscope.planning import search as searching
from gpuscope.planning.choice import front
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.space import candidates
from gpuscope.planning.types import Candidate, Question, Rejected

QUESTIONS = st.builds(
    lambda model, devices, batch, goal: asked(
        model=model, devices=devices, global_batch=batch, goal=goal, on="h100", simulate=6
    ),
    st.sampled_from(["llama-3.2-1b", "llama-3.1-8b", "qwen3-30b-a3b"]),
    st.sampled_from(["2", "8", "4..16"]),
    st.sampled_from([4, 16, 64]),
    st.sampled_from(["time", "cost", "energy"]),
)

KEPT: dict[str, Callable[[Candidate], bool]] = {
    "no pipelines": lambda each: each.plan.pp == 1,
    "no replicas": lambda each: each.plan.dp == 1,
    "no pipelines of one replica": lambda each: each.plan.pp == 1 or each.plan.dp > 1,
    "nothing recomputed": lambda each: each.plan.recompute == "none",
    "micro-batches of one": lambda each: each.plan.microbatch == 1,
}
"""Parts of the space, each of which is a space of its own."""

QUICK = pytest.fixture(scope="module", autouse=True)(scored_alone)


@settings(max_examples=8, deadline=None)
@given(QUESTIONS)
def test_no_listed_candidate_beats_a_plan_of_the_front(question: Question) -> None:
    try:
        found = searching.search(question)
    except DoesNotFitError:
        assume(False)
    simulator = Simulator(found.question)
    every = [simulator.judge(each, 1.0) for each in candidates(found.question)[0]]
    rivals = [each for each in every if each.fits >= question.certainty]
    kept = {each.candidate for each in front([*found.front, *rivals])}
    assert {each.candidate for each in found.front} <= kept


@settings(max_examples=8, deadline=None)
@given(QUESTIONS, st.sampled_from(sorted(KEPT)))
def test_more_candidates_never_make_the_best_worse(question: Question, kept: str) -> None:
    def fewer(asked: Question) -> tuple[list[Candidate], list[Rejected]]:
        found, out = candidates(asked)
        return [each for each in found if KEPT[kept](each)], out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "candidates", fewer)
        few = _least(question)
    assert _least(question) <= few


def _least(question: Question) -> tuple[bool, float]:
    """Whether only what saves memory fits, and the goal's least figure."""
    try:
        found = searching.search(question)
    except DoesNotFitError:
        return True, float("inf")
    least = found.ties[0].value(question.goal)
    assert least is not None
    return found.lightened != "", least
