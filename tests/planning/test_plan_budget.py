"""Budget questions: the largest model in a week, so many users at so many tokens a second."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from made import judged

import gpuscope as gs
from gpuscope.document.text import render
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.planning import search as searching
from gpuscope.planning.largest import explained_largest, largest
from gpuscope.planning.serving.users import at_once
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.types import Candidate, Judged

GIVEN: dict[str, Any] = {"on": "rtx-4090", "devices": 8, "simulate": 1}


@pytest.fixture
def _quick() -> Iterator[None]:
    """The quick score stands in for the simulator, a tenth slower."""

    def judge(self: Simulator, candidate: Candidate, scored_s: float) -> Judged:
        return replace(judged(1.1 * scored_s, "1xh200"), candidate=candidate)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Simulator, "judge", judge)
        patch.setattr(searching, "composed", lambda *_: {})
        yield


@pytest.mark.usefixtures("_quick")
def test_the_largest_that_is_done_in_time() -> None:
    week, year = largest(7, **GIVEN), largest(365, **GIVEN)
    taken = {
        days: next(e for e in found if e.days is not None and e.days <= days)
        for days, found in ((7, week), (365, year))
    }
    assert taken[365].question.size.parameters >= taken[7].question.size.parameters
    sizes = [each.question.size.parameters for each in week]
    assert sizes[0] > 1e11
    simulated = [each for each in week if each.plan is not None]
    assert simulated[-1] is taken[7]  # smaller ones are not simulated
    told = render(explained_largest(week, 7).summary[0], "en")
    assert told.startswith(f"{taken[7].question.model} is the largest built-in decoder")


def test_an_hour_is_too_short() -> None:
    told = explained_largest(largest(1 / 24 / 60, **GIVEN), 1 / 24 / 60)
    assert "No built-in decoder trains" in render(told.summary[0], "en")
    for days in (0, -1, float("inf"), float("nan")):
        with pytest.raises(InvalidValueError, match="no time"):
            largest(days, **GIVEN)


@pytest.mark.parametrize("wrong", [{"on": "nothing"}, {"goal": "beauty"}, {"grid": "nowhere"}])
def test_what_is_wrong_for_every_model_is_said(wrong: dict[str, str]) -> None:
    with pytest.raises(UnknownNameError, match=next(iter(wrong.values()))):
        largest(7, **(GIVEN | wrong))


def test_users_are_a_rate_and_a_limit() -> None:
    rate, limits = at_once(1000, 50, 500, 0.0, "ttft<1s")
    assert rate == 100
    assert limits == "ttft<1s,tpot<20.000000ms"
    for users, speed, given in ((None, 50, 0), (3, None, 0), (3, 50, 2), (0, 50, 0), (3, 0, 0)):
        with pytest.raises(InvalidValueError, match="--users 1000 --speed 50"):
            at_once(users, speed, 500, given, None)


def test_users_are_served() -> None:
    plan = gs.plan(
        "llama-3.1-8b", task="serve", on="h100", devices=1, users=20, speed=40, answer="64",
        simulate=1,
    )  # fmt: skip
    assert plan.question.rate_per_s == pytest.approx(12.5)
    assert plan.best is not None
    assert plan.best.tpot_s < 1 / 40
