"""What one iteration works on, and how many like it fill a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, sqrt

DeviceTime = Callable[[int, float, int, int, float], float]
"""(prompt tokens, their query-key pairs, prompts that end, sequences that decode, their keys)"""

MOST_STEPS = 4096
"""Of a stretch: its end is a straight line away."""


@dataclass(slots=True)
class Batch:
    """Of an iteration.

    Attributes:
        decoding: sequences that decode in it.
        tokens: of prompts. pairs: of their queries and keys.
        worked: requests whose prompts these are. ended: those of them that are through.
    """

    decoding: int
    tokens: int = 0
    pairs: float = 0.0
    worked: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)

    @property
    def sequences(self) -> int:
        """In it, of both sorts."""
        return self.decoding + len(self.worked)


def steps_until(seconds: float, first: float, slope: float) -> int:
    """Iterations until that time has passed: the sum of a straight line."""
    if seconds <= 0:
        return 1
    if slope <= 1e-15:
        return max(1, ceil(seconds / first))
    b = first - slope / 2
    return max(1, ceil((-b + sqrt(b * b + 2 * slope * seconds)) / slope))
