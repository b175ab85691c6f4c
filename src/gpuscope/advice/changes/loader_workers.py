"""Worker processes that make batches while the device computes.

Without workers (`num_workers=0`, PyTorch's default) the training loop's own thread reads, decodes
and collates every sample between two steps.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.source.edits import call_keyword
from gpuscope.advice.types import ChangeCase, Edit, Fit, LoaderSeen, Seen
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["LoaderWorkers", "workers_here"]

MOST_WORKERS = 16
"""More processes for one loader seldom help: its queue is emptied by one thread."""

LEAST_WAIT = 0.02
"""A measured wait for input below this share of the step is not worth processes."""

_IN_MEMORY = frozenset({"TensorDataset"})


class LoaderWorkers(Change):
    """Make batches in processes of their own."""

    name = "loader-workers"
    title = Text("worker processes for the loader")
    group = "input"
    needs_gpu = False
    redraws = True
    rank = 21

    def fits(self, case: ChangeCase) -> Fit:
        """It needs a loader that makes its batches in the training loop, from a map of samples."""
        wait = _waiting_s(case.run)
        loaders = case.seen.loaders if case.seen is not None else ()
        if case.seen is not None and not loaders:
            return Fit(False, Text("There is no DataLoader."), relevant=False)
        if wait is not None and wait < LEAST_WAIT * case.run.step_time_s:
            share = Percent(wait / case.run.step_time_s)
            return Fit(
                False, Text("The device waits for input only {share} of the step.", share=share)
            )
        if not loaders:
            return Fit(False, Text("The code is not known, only its timeline."))
        against = [_against(each) for each in loaders]
        if all(against):
            return Fit(False, next(why for why in against if why))
        if wait is not None:
            return Fit(
                True,
                Text(
                    "The device waits {wait} a step for input that one thread makes.",
                    wait=Seconds(wait),
                ),
            )
        return Fit(
            True,
            Text(
                "Batches are made by the training loop's own thread; how long that takes on the "
                "host is known only once it is run."
            ),
        )

    def install(self, live: Live) -> None:
        """Give each loader without workers as many as the machine has cores for."""
        from torch.utils.data import IterableDataset

        def edit(keywords: dict[str, Any]) -> None:
            if isinstance(keywords.get("dataset"), IterableDataset) or keywords.get("num_workers"):
                return
            keywords["num_workers"] = workers_here()
            keywords["persistent_workers"] = True

        live.on_loader(edit)

    def unforeseen(self, case: ChangeCase) -> bool:
        """How long batches take on the host is known only from a measured run."""
        loaders = case.seen.loaders if case.seen is not None else ()
        return bool(loaders) and _waiting_s(case.run) is None

    def price(self, case: ChangeCase) -> Text | None:
        """Processes of the host."""
        number = workers_here()
        return Text(
            "{number} processes, each with its own copy of what the dataset holds.", number=number
        )

    def risk(self, case: ChangeCase) -> Text | None:
        """Random numbers and devices in workers."""
        return Text(
            "A dataset that draws random numbers draws others in its workers; one that uses the "
            "GPU itself cannot run in them."
        )

    def saving_s(self, run: Run, case: ChangeCase) -> tuple[float, float] | None:
        """At best the whole wait for input."""
        wait = _waiting_s(run)
        return None if not wait else (0.0, wait)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`num_workers` in the loaders' calls."""
        found = []
        for each in seen.loaders:
            if _against(each):
                continue
            value = str(workers_here())
            if "persistent_workers" not in each.keywords:
                value += ", persistent_workers=True"
            found.append(call_keyword(sources, each.site, "DataLoader", "num_workers", value))
        return tuple(e for e in found if e) if found and all(found) else None


def workers_here() -> int:
    """Workers for one loader: this machine's cores, shared by the job's processes on it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    of_job = os.environ.get("LOCAL_WORLD_SIZE", "1")
    processes = int(of_job) if of_job.isdigit() and int(of_job) else 1
    return max(1, min(MOST_WORKERS, (cores or 1) // processes))


def _against(loader: LoaderSeen) -> Text | None:
    """Why a loader is left as it is; None where it is not."""
    if loader.iterable:
        return Text("A stream must be told how to share itself between workers.")
    if loader.keywords.get("num_workers"):
        return Text(
            "The loader has {workers} workers.", workers=str(loader.keywords["num_workers"])
        )
    if loader.dataset in _IN_MEMORY:
        return Text("The data lie in memory: workers would only copy them once more.")
    return None


def _waiting_s(run: Run) -> float | None:
    """Seconds a step that the device waits for input; None for a prediction, which cannot know."""
    if run.origin != "measured":
        return None
    found = [f.max_gain_s for f in run.analysis.findings if f.kind == "input_bound"]
    return (found[0] if found else 0.0) or 0.0


register(LoaderWorkers())
