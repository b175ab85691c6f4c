"""What is left, and what the next trial will take."""

from __future__ import annotations

from gpuscope.advice.trial.budget import Budget


def test_time_runs() -> None:
    now = [100.0]
    budget = Budget(60, clock=lambda: now[0])
    assert budget.left_s == 60
    now[0] = 170
    assert budget.left_s == -10


def test_what_a_trial_takes_is_learned_by_its_sort() -> None:
    budget = Budget(600, ready_s=10, clock=lambda: 0.0)
    first = budget.expected_s(compiles=False)
    assert first > 10
    assert budget.expected_s(compiles=True) > first
    for seconds in (20, 30, 90):
        budget.saw(seconds, compiles=False)
    assert budget.expected_s(compiles=False) == 30
    assert budget.expected_s(compiles=True) > 30
    budget.saw(200, compiles=True)
    assert budget.expected_s(compiles=True) == 200
    assert budget.expected_s(compiles=False) == 30
