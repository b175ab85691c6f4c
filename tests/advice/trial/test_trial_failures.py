"""What went wrong, in plain words, on both sides of the pipe."""

from __future__ import annotations

import pytest

from gpuscope.advice.trial.failures import TooShortError, TrialFailure, failure_message
from gpuscope.document.text import render
from gpuscope.errors import UnsupportedError, WorkloadError


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("odd"), "crashed"),
        (MemoryError(), "memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "memory"),
        (UnsupportedError("No such unit."), "impossible"),
        (WorkloadError("It ended.", "Too early.", "Go on."), "crashed"),
    ],
)
def test_outcomes(error: Exception, outcome: str) -> None:
    message = failure_message(error)
    assert message["outcome"] == outcome
    failure = TrialFailure.of_message(message)
    assert failure.outcome == outcome
    assert failure.words
    assert render(failure.words, "zh")


def test_an_original_that_fails_says_what_to_do() -> None:
    failure = TrialFailure.of_message(failure_message(WorkloadError("It ended.", "Early.", "Go.")))
    error = failure.as_error()
    assert (error.what, error.why, error.next_step) == ("It ended.", "Early.", "Go.")


def test_a_script_that_ended_too_early_has_not_crashed() -> None:
    failure = TrialFailure.of_message(failure_message(TooShortError(12, passes=2)))
    assert (failure.outcome, failure.passes) == ("short", 2)
    assert failure.words == (
        "The script is too short: it ended after 12 steps. Raise its number of steps or epochs "
        "(its own arguments), or give file.py:build."
    )
    assert "太短" in render(failure.words, "zh")
