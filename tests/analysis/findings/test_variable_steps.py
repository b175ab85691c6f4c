"""Steps that differ are told, even ones are not."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, find


def steps(lengths_us: list[float]) -> TimelineBuilder:
    b, now = TimelineBuilder(origin="measured"), 0.0
    for length in lengths_us:
        b.work(now + 5, now + length - 5, launch_us=now + 1)
        b.step(now, now + length)
        now += length
    return b


def test_slow_steps_are_found() -> None:
    found = find(steps([100, 100, 100, 300, 100]), "variable_steps")
    assert found is not None
    assert found.max_gain_s == pytest.approx(40e-6)
    assert "1 of 5 steps" in found.title
    assert "computation" in found.evidence


def test_even_steps_are_fine() -> None:
    assert find(steps([100, 101, 99, 102]), "variable_steps") is None


def test_a_rare_slow_step_is_not_worth_a_sentence() -> None:
    assert find(steps([100] * 60 + [130]), "variable_steps") is None
