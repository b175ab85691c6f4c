"""What went wrong in a trial, from the worker's exception to the reader's sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuscope.advice.results import Outcome
from gpuscope.document.text import Text, sentences
from gpuscope.document.translations import heard, spoken
from gpuscope.errors import GpuscopeError, UnsupportedError, WorkloadError

__all__ = ["TooShortError", "TrialFailure", "failure_message"]


class TooShortError(WorkloadError):
    """A script ended before it was timed long enough.

    Args:
        steps: that it took.
        passes: over its loaders, with steps in them, that came to their end; 0 where no loader's
            end is what ended it, or where that begins again already.
    """

    def __init__(self, steps: int, passes: int = 0) -> None:
        super().__init__(
            Text("The script is too short: it ended after {steps} steps.", steps=steps),
            Text("A variant is warmed up first, then timed against another one."),
            Text("Raise its number of steps or epochs (its own arguments), or give file.py:build."),
        )
        self.passes = passes


class TrialFailure(GpuscopeError):  # noqa: N818 - the outcome of one trial, caught by its contest
    """A worker did not do what it was asked.

    Args:
        outcome: what that makes of the trial.
        words: what happened, for the reader.
        what, why, next_step: as of `GpuscopeError`, for a baseline that fails.
        passes: see `TooShortError`.
    """

    def __init__(
        self,
        outcome: Outcome,
        words: Text,
        what: str,
        why: str = "",
        next_step: str = "",
        passes: int = 0,
    ) -> None:
        super().__init__(what, why, next_step)
        self.outcome = outcome
        self.words = words
        self.passes = passes

    def as_error(self) -> WorkloadError:
        """What is raised where the original code itself cannot be run."""
        return WorkloadError(self.what, self.why, self.next_step)

    @classmethod
    def of_message(cls, message: Mapping[str, Any]) -> TrialFailure:
        """What `failure_message` made, on the other side of the pipe."""
        what, why, step = (heard(message[each]) for each in ("what", "why", "next_step"))
        outcome: Outcome = message["outcome"]
        words = sentences(what, step) if outcome == "short" else sentences(what, why)
        return cls(outcome, words, what, why, step, message.get("passes", 0))


def failure_message(error: BaseException) -> dict[str, Any]:
    """An exception as plain data.

    Returns:
        `outcome` ("memory", "impossible", "short" or "crashed"), `what`, `why`, `next_step`,
        `passes`.
    """
    from gpuscope.measurement.failure import OutOfDeviceMemoryError, explained

    shown = error if isinstance(error, GpuscopeError) else explained(Text("the workload"), error)
    cause = shown.__cause__ or error
    outcome: Outcome = "crashed"
    if isinstance(shown, OutOfDeviceMemoryError) or _no_memory(cause):
        outcome = "memory"
    elif isinstance(shown, UnsupportedError):
        outcome = "impossible"
    elif isinstance(shown, TooShortError):
        outcome = "short"
    words = {"what": shown.what, "why": shown.why, "next_step": shown.next_step}
    return {"outcome": outcome, "passes": getattr(shown, "passes", 0), **spoken(words)}


def _no_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, MemoryError) or "allocate memory" in text or "out of memory" in text
