"""Observes one variant again and again, in as few processes as that takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from gpuscope.advice.trial.failures import TrialFailure
from gpuscope.advice.trial.job import Job
from gpuscope.advice.trial.observed import Observed
from gpuscope.advice.trial.process import Variant

__all__ = ["Observer"]


class Observer:
    """One variant's process for observations; a script's runs have one each.

    Args:
        make: makes the process of a job.
        job: of the variant, with the steps to observe.
        seconds: that one run may take, from when it is asked for.
        timed: a process that was timed, to begin with.
    """

    def __init__(
        self,
        make: Callable[[Job], Variant],
        job: Job,
        seconds: Callable[[], float],
        timed: Variant | None = None,
    ) -> None:
        self._make, self._job, self._seconds = make, job, seconds
        self._again = job.target.kind == "build"
        self._variant: Variant | None = None
        self._first: Job | None = None
        if timed is not None and self._again and timed.alive:
            self._variant = timed
        elif timed is not None:
            timed.close()
        self.adopted = self._variant is not None
        """Whether what was observed last came from a process that was timed before."""

    @property
    def started(self) -> bool:
        """Whether there is a process."""
        return self._variant is not None

    def start(self, seed: int | None = None, perturb: float = 0.0, noise: int = 0) -> None:
        """Start a process, which observes at once; nothing where there is one."""
        if self._variant is not None:
            return
        seed = self._job.seed if seed is None else seed
        self.adopted = False
        self._first = replace(self._job, seed=seed, perturb=perturb, noise=noise)
        self._variant = self._make(self._first)
        self._variant.start()

    def observe(self, seed: int, perturb: float = 0.0, noise: int = 0) -> Observed:
        """What the first steps give.

        Raises:
            TrialFailure: it cannot be run.
        """
        used = self._variant is not None and self._first is None
        try:
            return self._observed(seed, perturb, noise)
        except TrialFailure as failure:
            self.close()
            if not used or failure.outcome == "hung":
                raise
            # What is left of earlier builds may be in its way: once more, in a new process.
            return self._observed(seed, perturb, noise)
        except BaseException:
            self.close()
            raise

    def _observed(self, seed: int, perturb: float, noise: int) -> Observed:
        self.start(seed, perturb, noise)
        assert self._variant is not None
        until = time.perf_counter() + self._seconds()
        first, self._first = self._first, None
        wanted = replace(self._job, seed=seed, perturb=perturb, noise=noise)
        if first is not None:
            answers = self._variant.observed(until)
            if first != wanted:
                first = None
        if first is None:
            request = {"steps": self._job.observe, "seed": seed, "perturb": perturb, "noise": noise}
            answers = self._variant.observe(request, until)
        if not self._again:
            self.close()
        return Observed.of_message(answers[0], seed)

    def close(self) -> None:
        """End its process."""
        if self._variant is not None:
            self._variant.close()
            self._variant = None
        self._first = None
