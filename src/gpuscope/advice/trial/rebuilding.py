"""In a worker's process: build the workload, observe its first steps, and let go of it again.

A process that has done it once has imported everything and compiled what is to be compiled: to do
it again, from another seed or with noise on the weights, takes no more than the steps.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Any

from gpuscope.advice.trial.job import Job

__all__ = ["COMPILING_STEPS", "Rebuilding", "changed", "observed"]

COMPILING_STEPS = 2
"""First steps, in which code is compiled: those who share the device do not wait for them."""


def changed(job: Job) -> tuple[Any, Any]:
    """The live changes of a job, and what watches the results where that is asked; else None."""
    from gpuscope.advice.changes.hooks.live import Live
    from gpuscope.advice.registry import plan
    from gpuscope.advice.user_changes import load_own

    load_own(job.own_changes)
    changes = list(plan(job.names))
    if not job.observe:
        return Live(changes), None
    from gpuscope.advice.trial.result_hooks import Watching

    watching = Watching(job.perturb, job.noise)
    return Live([*changes, watching]), watching


def observed(watching: Any, subject: Any, job: Job) -> dict[str, Any]:
    """What the job's first steps give, as plain data."""
    from gpuscope.advice.trial.device_sharing import Sharing

    sharing = Sharing(job.share)

    def around(number: int) -> AbstractContextManager[Any]:
        return nullcontext() if number < COMPILING_STEPS else sharing.using()

    found: dict[str, Any] = watching.observe(subject, job.observe, job.seed, around)
    return found


class Rebuilding:
    """Builds one workload again and again.

    Args:
        job: of the process.
        build: the user's, as it stands.
        accelerator: where it runs.
    """

    def __init__(self, job: Job, build: Callable[[], Any], accelerator: Any) -> None:
        self._job, self._build, self._accelerator = job, build, accelerator

    def observe(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Build, observe, let go.

        Args:
            request: "steps", "seed", "perturb", "noise"; what is missing is the job's.
        """
        from gpuscope.advice.trial.seeding import seed_all
        from gpuscope.advice.trial.workloads import BuildSubject

        job = replace(
            self._job,
            observe=request.get("steps", self._job.observe),
            seed=request.get("seed", self._job.seed),
            perturb=request.get("perturb", self._job.perturb),
            noise=request.get("noise", self._job.noise),
        )
        live, watching = changed(job)
        self._make_room()
        seed_all(job.seed)
        subject = None
        try:
            subject = BuildSubject(self._build, live, self._accelerator)
            return observed(watching, subject, job)
        finally:
            if subject is not None:
                subject.drop()
            live.forget()
            self._make_room()

    def _make_room(self) -> None:
        """Compiled code belongs to models that are gone; so does their memory."""
        torch: Any = sys.modules["torch"]
        if "torch._dynamo" in sys.modules:
            torch._dynamo.reset()
        gc.collect()
        if self._accelerator.is_gpu:
            module: Any = getattr(torch, self._accelerator.kind, None)
            with suppress(AttributeError, RuntimeError):
                module.empty_cache()
