"""What the planner's rule chooses among runs made by hand; the pages are those of the results."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def _run(plan: str, measured: float, predicted: float, half: float = 0.01, dimensions: int = 1):
    from plan_choice import Run

    return Run(("q",), 1, "bf16", (plan,), plan, dimensions, measured, predicted, half)


def _one(*runs: object):
    from plan_choice import answers

    (answer,) = answers(runs, lambda run: run.question)  # type: ignore[arg-type]
    return answer


def test_the_least_predicted_is_chosen_and_its_regret_is_what_was_measured() -> None:
    answer = _one(_run("a", 1.0, 1.2), _run("b", 1.5, 1.0), _run("c", 2.0, 3.0))
    assert answer.chosen.words == "b"
    assert answer.regret == pytest.approx(0.5)
    assert answer.at_random == pytest.approx((0 + 0.5 + 1) / 3)
    assert answer.tau == pytest.approx((-1 + 1 + 1) / 3)


def test_of_ties_the_simplest_is_chosen() -> None:
    wide = [
        _run("a", 1.0, 1.01, 0.2, dimensions=1),
        _run("b", 1.2, 1.0, 0.2, dimensions=3),
        _run("c", 9.0, 9.0, 0.2),
    ]
    answer = _one(*wide)
    assert answer.chosen.words == "a"
    assert {run.words for run in answer.ties} == {"a", "b"}


def test_releases_of_a_plan_are_one_candidate_and_no_choice_alone() -> None:
    from plan_choice import answers

    same = [_run("a", measured, 1.0) for measured in (1.0, 2.0, 9.0)]
    assert answers(same, lambda run: run.question) == []
    answer = _one(*same, _run("b", 3.0, 4.0))
    assert [run.measured for run in answer.plans] == [2.0, 3.0]
    other = [replace(run, question=("other",)) for run in same]
    assert len(answers([*same, *other, _run("b", 3.0, 4.0)], lambda run: run.question)) == 1


def test_the_pages_are_those_of_the_results() -> None:
    from plan_choice import main

    assert main(["--check"]) == 0, "make validate-plan"
