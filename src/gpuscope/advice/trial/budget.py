"""How long trials may take in all, and what the next one will probably take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

__all__ = ["Budget"]

_FIRST_COMPILE_S = 60.0
"""A first guess of what compilation adds to a trial, until one was seen."""
_FIRST_PAIRS_S = 5.0
"""A first guess of what the timed pairs and the parity check take."""


class Budget:
    """Time for trials, and the experience of this run.

    Args:
        seconds: for all of it.
        ready_s: what the baseline took until its first timed step.
        clock: seconds that go on; another one in tests.
    """

    def __init__(
        self, seconds: float, ready_s: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self._ready_s = ready_s
        self._seen: dict[bool, list[float]] = {True: [], False: []}

    @property
    def left_s(self) -> float:
        """Seconds that are left; negative once it is over."""
        return self._end - self._clock()

    def saw(self, seconds: float, *, compiles: bool) -> None:
        """Remember what a trial took, by whether something of it is compiled."""
        self._seen[compiles].append(seconds)

    def expected_s(self, *, compiles: bool) -> float:
        """What a trial will take: the median of those before of its sort; a guess at first."""
        if self._seen[compiles]:
            return statistics.median(self._seen[compiles])
        plain = 2 * self._ready_s + _FIRST_PAIRS_S
        if self._seen[False]:
            plain = statistics.median(self._seen[False])
        return plain + (_FIRST_COMPILE_S if compiles else 0.0)
