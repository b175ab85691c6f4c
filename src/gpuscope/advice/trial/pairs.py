"""Two variants in turn: A B, B A, A B, ... until their ratio is known. Pure; runs nothing itself.

Blocks of one pair lie next to each other in time, so that what drifts (clocks, temperature, other
work on the host) drifts for both; the order changes from pair to pair, so that none is favoured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gpuscope.advice.results import Outcome
from gpuscope.measurement.statistics import Interval, median_interval

__all__ = ["BLOCK_S", "Pairs", "judged", "steps_of_block", "take_pairs"]

BLOCK_S = 0.1
"""Shortest block: one synchronisation in it is then below 0.1 % of it."""

LEAST_PAIRS = 6
"""Fewest pairs of which extremes hold the median with 95 % (96.9 %)."""

HOPELESS_PAIRS = 9
"""After so many, one whose whole interval holds no gain is not timed further."""

MOST_PAIRS = 80

NARROW = 0.01
"""The interval's half width, relative, that ends the timing."""

GAIN = 0.005
"""A variant must be faster by more than this with its whole interval."""


@dataclass(slots=True)
class Pairs:
    """Step times of blocks, pair by pair, in seconds."""

    before_s: list[float] = field(default_factory=list)
    after_s: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> Interval:
        """Median of before / after, the speedup, with its 95 % interval."""
        return median_interval([b / a for b, a in zip(self.before_s, self.after_s, strict=True)])

    @property
    def enough(self) -> bool:
        """Whether the ratio is known, or a gain is out of the question."""
        if len(self.before_s) < LEAST_PAIRS:
            return False
        ratio = self.ratio
        if len(self.before_s) >= HOPELESS_PAIRS and ratio.high < 1 + GAIN:
            return True
        return (ratio.high - ratio.low) / 2 <= NARROW * ratio.median


def steps_of_block(step_s: float) -> int:
    """Steps of a block of at least `BLOCK_S`."""
    return max(1, math.ceil(BLOCK_S / max(step_s, 1e-9)))


def take_pairs(
    before: Callable[[], float], after: Callable[[], float], until: float, into: Pairs | None = None
) -> Pairs:
    """Time blocks in turn until the ratio is known or the time is over.

    At least `LEAST_PAIRS` are taken however long that lasts.

    Args:
        before, after: each runs one block and returns the seconds of a step.
        until: on the clock of `time.perf_counter`.
        into: pairs that were taken already.
    """
    pairs = into or Pairs()
    while len(pairs.before_s) < MOST_PAIRS and not pairs.enough:
        if len(pairs.before_s) >= LEAST_PAIRS and time.perf_counter() >= until:
            break
        if len(pairs.before_s) % 2 == 0:
            first, second = before(), after()
        else:
            second, first = after(), before()
        pairs.before_s.append(first)
        pairs.after_s.append(second)
    return pairs


def judged(ratio: Interval) -> Outcome:
    """What an interval of a gain means: "kept", "slower" or "even"."""
    if ratio.confidence is None or ratio.confidence < 0.95:
        return "even"
    if ratio.low > 1 + GAIN:
        return "kept"
    return "slower" if ratio.high < 1 else "even"
