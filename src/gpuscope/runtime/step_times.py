"""The step time that was predicted beside the one that a training really has, for its logs."""

from __future__ import annotations

import time
from typing import Any


class StepTimes:
    """Predicted beside measured: what a callback of a training framework logs.

    Measured is wall time of the host over steps that have ended, their mean since the last asking.
    A host runs ahead of its device by a step or two at most, so over several steps it is the
    device's pace, too; nothing is synchronised for it.

    Args:
        predicted: a run of `gpuscope.predict` or `gpuscope.load`, or seconds.
        warmup: steps at the beginning that are not measured: allocations, compilation.
        clock: seconds that only grow.
    """

    def __init__(self, predicted: Any, warmup: int = 3, clock: Any = time.perf_counter) -> None:
        self.predicted_s = float(getattr(predicted, "step_time_s", predicted))
        self._warmup, self._clock = warmup, clock
        self._first: int | None = None
        self._last: tuple[int, float] | None = None

    def at(self, step: int) -> dict[str, float]:
        """Return what to log after a step, in seconds; {} where nothing was measured yet.

        Args:
            step: steps done so far; any number that grows by one a step. Asked after every step, or
                after every tenth.
        """
        now = self._clock()
        if self._first is None:
            self._first = step
        if step < self._first + self._warmup or (self._last and step <= self._last[0]):
            return {}
        last, self._last = self._last, (step, now)
        if last is None:
            return {}
        measured_s = (now - last[1]) / (step - last[0])
        return {
            "gpuscope/measured_step_s": measured_s,
            "gpuscope/predicted_step_s": self.predicted_s,
            "gpuscope/measured_over_predicted": measured_s / self.predicted_s,
        }
