"""Tolerances grow with what a change does."""

from __future__ import annotations

import pytest

from gpuscope.advice.trial.tolerances import MOST, ROUNDOFF, allowed, loosest


def test_the_loosest_of_several() -> None:
    assert loosest(["exact", "bf16", "reordered"]) == "bf16"
    assert loosest([]) == "exact"
    assert loosest(["recipe", "int4"]) == "recipe"


@pytest.mark.parametrize("name", list(ROUNDOFF))
def test_later_steps_may_differ_more(name: str) -> None:
    _, limits = allowed(name)  # type: ignore[arg-type]
    assert 0 < limits.loss <= limits.loss_later <= MOST
    assert 0 < limits.gradient <= limits.gradient_later <= MOST
    assert limits.reason


def test_coarser_arithmetic_is_allowed_more() -> None:
    order = ("exact", "reordered", "tf32", "bf16", "int8", "fp8", "int4")
    losses = [allowed(name)[1].loss for name in order]  # type: ignore[arg-type]
    assert losses == sorted(losses)


def test_the_loss_of_a_class_is_held_near_its_roundoff() -> None:
    for name in ("tf32", "fp16", "bf16"):
        _, limits = allowed(name)  # type: ignore[arg-type]
        assert ROUNDOFF[name] <= limits.loss <= 4 * ROUNDOFF[name]  # type: ignore[index]


def test_what_the_original_computes_in_counts() -> None:
    assert allowed("reordered", "bfloat16")[0] == "bf16"
    assert allowed("tf32", "bfloat16")[0] == "bf16"
    assert allowed("exact", "bfloat16")[0] == "exact"
