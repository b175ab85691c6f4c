"""Run the original and a variant from the same seed, and compare what they give.

The reference is always the original code's run, not the last best one's, so that small differences
cannot add up over a ladder. It is run once more only where something differs: to see whether it
varies by itself, and how far a rounding of its weights moves it. All of its runs are made in one
process, and those of a variant, too: in the one that was timed, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from gpuscope.advice.change import Change
from gpuscope.advice.results import Parity
from gpuscope.advice.trial.failures import TrialFailure
from gpuscope.advice.trial.job import Job
from gpuscope.advice.trial.observed import Observed
from gpuscope.advice.trial.observer import Observer
from gpuscope.advice.trial.parity import OTHER_DRAWS, distribution, judge, varies
from gpuscope.advice.trial.process import Variant
from gpuscope.advice.trial.tolerances import ROUNDOFF, allowed, loosest
from gpuscope.advice.types import Numerics

__all__ = ["Proving"]

BASES = 5
OTHERS = 3
"""Runs of the original and of the variant where they are compared by their spread."""


class Proving:
    """Compares variants with the original; keeps what was observed of it.

    Args:
        variant: makes the process of a job.
        job: of the original.
        steps: to compare.
        seconds: that one run may take, from when it is asked for.
    """

    def __init__(
        self, variant: Callable[[Job], Variant], job: Job, steps: int, seconds: Callable[[], float]
    ) -> None:
        self._variant = variant
        self._job = replace(job, observe=steps)
        self._seconds = seconds
        self._kept: dict[tuple[int, float, int, int], Observed] = {}
        self._ours = Observer(variant, self._job, seconds)
        self._theirs: Observer | None = None

    # -- the original, beforehand ------------------------------------------------------------------

    @property
    def begun(self) -> bool:
        """Whether a process of the original is at work, or waits to be asked again."""
        return self._ours.started

    def begin(self) -> None:
        """Start to observe the original, while something else is got ready."""
        if self._job.processes == 1 and not self._kept:
            self._ours.start()

    def settle(self) -> None:
        """Wait until it is observed; what fails is told when it is needed."""
        if self._ours.started and not self._kept:
            with suppress(TrialFailure):
                self._kept[0, 0.0, 0, self._job.seed] = self._ours.observe(self._job.seed)

    # -- verdicts ----------------------------------------------------------------------------------

    def parity(self, changes: Sequence[Change], timed: Variant | None = None) -> Parity:
        """Whether these changes leave the results what they are.

        Args:
            changes: made together.
            timed: a process of that variant, which is used up.

        Raises:
            TrialFailure: the variant, or the original, cannot be run for it.
        """
        names = tuple(change.name for change in changes)
        job = replace(self._job, names=names)
        self._theirs = theirs = Observer(self._variant, job, self._seconds, timed)
        try:
            base = self._original()
            other = theirs.observe(self._job.seed)
            parity = self._judged(changes, base, other)
            if parity.good or not theirs.adopted:
                return parity
            # What modules keep from build to build may differ: once more, in a new process.
            theirs.close()
            other = theirs.observe(self._job.seed)
            return self._judged(changes, base, other)
        finally:
            theirs.close()

    def _judged(self, changes: Sequence[Change], base: Observed, other: Observed) -> Parity:
        numerics = loosest(change.numerics for change in changes)
        parity = judge(numerics, base, other)
        if parity.verdict != "differs":
            return parity
        effective, _ = allowed(numerics, base.precision)
        again = self._original(run=1)
        if varies(base, again):
            return self._by_spread(numerics, ROUNDOFF[effective], base, again, other)
        moved = self._original(perturb=ROUNDOFF[effective])
        parity = judge(numerics, base, other, again=again, moved=moved)
        if parity.verdict == "differs" and any(change.redraws for change in changes):
            return self._by_seeds(numerics, base, other)
        return parity

    def _by_spread(
        self, numerics: Numerics, roundoff: float, base: Observed, again: Observed, other: Observed
    ) -> Parity:
        """The original varies: so do its runs from weights that are off by a rounding, each by
        another draw, as those of a variant with other arithmetic must."""
        assert self._theirs is not None
        moved = [self._original(perturb=roundoff, noise=number) for number in range(BASES - 2)]
        others = [other, *(self._theirs.observe(base.seed) for _ in range(OTHERS - 1))]
        return distribution(numerics, [base, again, *moved], others)

    def _by_seeds(self, numerics: Numerics, base: Observed, other: Observed) -> Parity:
        """Other loader workers draw other random numbers: compared over several seeds."""
        assert self._theirs is not None
        bases, others = [base], [other]
        for number in range(1, BASES):
            bases.append(self._original(seed=base.seed + 1000 * number))
        for number in range(1, OTHERS):
            others.append(self._theirs.observe(base.seed + 1000 * number))
        return distribution(numerics, bases, others, OTHER_DRAWS)

    def _original(
        self, run: int = 0, perturb: float = 0.0, noise: int = 0, seed: int | None = None
    ) -> Observed:
        seed = self._job.seed if seed is None else seed
        key = (run, perturb, noise, seed)
        if key not in self._kept:
            try:
                self._kept[key] = self._ours.observe(seed, perturb, noise)
            except TrialFailure as failure:
                if failure.outcome == "memory":
                    raise
                raise failure.as_error() from failure
        return self._kept[key]

    def close(self) -> None:
        """End what runs."""
        self._ours.close()
        if self._theirs is not None:
            self._theirs.close()
