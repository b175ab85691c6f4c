"""Simulations end with the time that there is for them, and the answer says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made import asked, judged

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.planning import budget, search
from gpuscope.planning.budget import Budget
from gpuscope.planning.explanation import explained
from gpuscope.planning.question import question_of
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.types import Candidate, Judged, Question

FLAT = judged(1.0, "8xh200").candidate.plan
DEEP = replace(judged(1.0, "64x8xh200", pp=64, dp=8).candidate.plan, microbatches=320)


class Clock:
    """Processor time that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def process_time(self) -> float:
        """Seconds."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(budget, "time", made)
    return made


def test_none_is_begun_that_would_end_too_late(clock: Clock) -> None:
    mine = Budget(10.0)
    clock.now = 99.0
    assert mine.allows(DEEP)  # the first always is
    mine = Budget(10.0)
    clock.now += 4.0
    mine.done(FLAT)
    assert mine.allows(FLAT)  # four seconds more
    assert not mine.allows(DEEP)  # 20,480 passes are fourteen times the work of recording
    clock.now += 4.0
    mine.done(FLAT)
    assert not mine.allows(FLAT)


def test_no_end(clock: Clock) -> None:
    mine = Budget(0.0)
    clock.now = 1e6
    mine.done(DEEP)
    assert mine.allows(DEEP)


def _answered(
    question: Question, clock: Clock, monkeypatch: pytest.MonkeyPatch, peak_bytes: int
) -> tuple[search.Plan, list[Candidate]]:
    """A search whose simulations take twenty seconds each."""
    done: list[Candidate] = []

    def judge(self: Simulator, candidate: Candidate, scored_s: float) -> Judged:
        clock.now += 20.0
        done.append(candidate)
        made = judged(scored_s, "8xh200")
        return Judged(
            **{
                **{n: getattr(made, n) for n in made.__dataclass_fields__},
                "candidate": candidate,
                "peak_bytes": peak_bytes,
                "fits": 1.0 if peak_bytes < 1e9 else 0.0,
            }
        )

    monkeypatch.setattr(Simulator, "judge", judge)
    monkeypatch.setattr(search, "composed", lambda *given: iter(()))
    monkeypatch.setattr(search, "lost", lambda *given: False)
    return search.search(question), done


@pytest.mark.parametrize(("within", "wanted"), [(60.0, 3), (200.0, 8), (0.0, 8)])
def test_as_many_as_there_is_time_for(
    within: float, wanted: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = question_of("llama-3.2-1b", devices=8, within=within)
    plan, done = _answered(question, clock, monkeypatch, peak_bytes=1 << 20)
    assert len(done) == len(plan.judged) == wanted
    assert plan.cut == (wanted if within == 60.0 else None)
    told = [t for t in explained(plan).summary if isinstance(t, Text) and "--within" in t.template]
    assert len(told) == (plan.cut is not None)
    if told:
        assert (told[0].values["count"], told[0].values["wanted"]) == (3, 8)


def test_where_nothing_was_seen_to_fit_it_is_the_best_by_score(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = question_of("llama-3.2-1b", devices=8, within=30.0)
    plan, done = _answered(question, clock, monkeypatch, peak_bytes=1 << 40)
    assert plan.cut == len(done) == 1
    assert not plan.best.simulated
    assert plan.best.candidate not in done


@pytest.mark.parametrize("within", [-1.0, float("inf"), float("nan")])
def test_a_time_that_cannot_be(within: float) -> None:
    with pytest.raises(InvalidValueError, match="cannot take"):
        question_of("llama-3.2-1b", devices=8, within=within)


def test_it_is_a_minute_where_nothing_is_said() -> None:
    assert question_of("llama-3.2-1b", devices=8).within_s == 60.0
    assert asked().within_s in (0.0, 60.0)
