"""How long candidates are simulated: processor time, so that a busy machine answers alike."""

from __future__ import annotations

import time

from gpuscope.planning.hopes import work_of
from gpuscope.program.models.parallel.options import Parallelism

__all__ = ["WITHIN_S", "Budget"]

WITHIN_S = 60.0
"""Seconds of processor time that candidates are simulated for where nothing else is asked."""

_RECORDED = 1500
"""Passes of micro-batches through stages that take as long as recording a candidate does."""


class Budget:
    """Time for simulations: none is begun that would likely end after it, but for the first.

    Args:
        within_s: seconds of processor time; 0: no end.
    """

    def __init__(self, within_s: float) -> None:
        self.within_s = within_s
        self._begun_s = time.process_time()
        self._work = 0

    @property
    def spent_s(self) -> float:
        """Of processor time, so far."""
        return time.process_time() - self._begun_s

    def allows(self, plan: Parallelism) -> bool:
        """Whether there is time for a candidate, as long as those before took for their work."""
        if not self.within_s or not self._work:
            return True
        spent_s = self.spent_s
        return spent_s * (1 + _weight(plan) / self._work) <= self.within_s

    def done(self, plan: Parallelism) -> None:
        """Take note of a candidate that was simulated."""
        self._work += _weight(plan)


def _weight(plan: Parallelism) -> int:
    return _RECORDED + work_of(plan)
