"""What went wrong in a trial, from the worker's exception to the reader's sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuscope.advice.results import Outcome
from gpuscope.errors import GpuscopeError, UnsupportedError, WorkloadError
from gpuscope.explain.types import Words

__all__ = ["TrialFailure", "failure_message"]


class TrialFailure(GpuscopeError):  # noqa: N818 - the outcome of one trial, caught by its contest
    """A worker did not do what it was asked.

    Args:
        outcome: what that makes of the trial.
        words: what happened, for the reader.
        what, why, next_step: as of `GpuscopeError`, for a baseline that fails.
    """

    def __init__(
        self, outcome: Outcome, words: Words, what: str, why: str = "", next_step: str = ""
    ) -> None:
        super().__init__(what, why, next_step)
        self.outcome = outcome
        self.words = words

    def as_error(self) -> WorkloadError:
        """What is raised where the original code itself cannot be run."""
        return WorkloadError(self.what, self.why, self.next_step)

    @classmethod
    def of_message(cls, message: Mapping[str, Any]) -> TrialFailure:
        """What `failure_message` made, on the other side of the pipe."""
        outcome: Outcome = message["outcome"]
        told = f"{message['what']} {message['why']}".strip()
        zh = {
            "memory": f"显存（或内存）不够：{told}",
            "impossible": f"无法应用：{told}",
        }.get(outcome, f"出错：{told}")
        return cls(outcome, Words(told, zh), message["what"], message["why"], message["next_step"])


def failure_message(error: BaseException) -> dict[str, str]:
    """An exception as plain data.

    Returns:
        `outcome` ("memory", "impossible" or "crashed"), `what`, `why`, `next_step`.
    """
    from gpuscope.measure.failure import OutOfDeviceMemoryError, explained

    shown = error if isinstance(error, GpuscopeError) else explained("the workload", error)
    cause = shown.__cause__ or error
    outcome: Outcome = "crashed"
    if isinstance(shown, OutOfDeviceMemoryError) or _no_memory(cause):
        outcome = "memory"
    elif isinstance(shown, UnsupportedError):
        outcome = "impossible"
    return {
        "outcome": outcome, "what": shown.what, "why": shown.why, "next_step": shown.next_step
    }  # fmt: skip


def _no_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, MemoryError) or "allocate memory" in text or "out of memory" in text
