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
from gpuscope.advice.source import call_keyword
from gpuscope.advice.types import Case, Edit, Fit, LoaderSeen, Seen
from gpuscope.analysis.wording import percent, seconds
from gpuscope.explain.types import Words
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["LoaderWorkers", "workers_here"]

MOST_WORKERS = 16
"""More processes for one loader seldom help: its queue is emptied by one thread."""

LEAST_WAIT = 0.02
"""A measured wait for input below this share of the step is not worth processes."""

_IN_MEMORY = frozenset({"TensorDataset"})


class LoaderWorkers(Change):
    """Make batches in processes of their own."""

    name = "loader-workers"
    title = Words("worker processes for the loader", "数据加载使用工作进程")
    group = "input"
    needs_gpu = False
    redraws = True
    rank = 21

    def fits(self, case: Case) -> Fit:
        """It needs a loader that makes its batches in the training loop, from a map of samples."""
        wait = _waiting_s(case.run)
        loaders = case.seen.loaders if case.seen is not None else ()
        if case.seen is not None and not loaders:
            return Fit(False, Words("There is no DataLoader.", "没有 DataLoader。"), relevant=False)
        if wait is not None and wait < LEAST_WAIT * case.run.step_time_s:
            share = percent(wait / case.run.step_time_s)
            return Fit(
                False,
                Words(f"The device waits for input only {share} of the step.",
                      f"设备每步只有 {share} 的时间在等待输入。"),
            )  # fmt: skip
        if not loaders:
            return Fit(False, Words("The code is not known, only its timeline.",
                                    "只有时间线，没有代码。"))  # fmt: skip
        against = [_against(each) for each in loaders]
        if all(against):
            return Fit(False, next(why for why in against if why))
        if wait is not None:
            told = seconds(wait)
            return Fit(
                True,
                Words(f"The device waits {told} a step for input that one thread makes.",
                      f"设备每步等待输入 {told}，而数据只由一个线程准备。"),
            )  # fmt: skip
        return Fit(
            True,
            Words(
                "Batches are made by the training loop's own thread; how long that takes on the"
                " host is known only once it is run.",
                "数据由训练循环自己的线程准备；主机上要花多久，只有实际运行才知道。",
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

    def unforeseen(self, case: Case) -> bool:
        """How long batches take on the host is known only from a measured run."""
        loaders = case.seen.loaders if case.seen is not None else ()
        return bool(loaders) and _waiting_s(case.run) is None

    def price(self, case: Case) -> Words | None:
        """Processes of the host."""
        number = workers_here()
        return Words(
            f"{number} processes, each with its own copy of what the dataset holds.",
            f"需要 {number} 个进程，数据集持有的内容每个进程各有一份。",
        )

    def risk(self, case: Case) -> Words | None:
        """Random numbers and devices in workers."""
        return Words(
            "A dataset that draws random numbers draws others in its workers; one that uses the GPU"
            " itself cannot run in them.",
            "数据集若使用随机数，在工作进程中结果会不同；若自己使用 GPU，则不能放到工作进程。",
        )

    def saving_s(self, run: Run, case: Case) -> tuple[float, float] | None:
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
    told = os.environ.get("LOCAL_WORLD_SIZE", "1")
    processes = int(told) if told.isdigit() and int(told) else 1
    return max(1, min(MOST_WORKERS, (cores or 1) // processes))


def _against(loader: LoaderSeen) -> Words | None:
    """Why a loader is left as it is; None where it is not."""
    if loader.iterable:
        return Words(
            "A stream must be told how to share itself between workers.",
            "流式数据集需要自己决定如何在工作进程间分配。",
        )
    if loader.keywords.get("num_workers"):
        number = loader.keywords["num_workers"]
        return Words(f"The loader has {number} workers.", f"加载器已有 {number} 个工作进程。")
    if loader.dataset in _IN_MEMORY:
        return Words(
            "The data lie in memory: workers would only copy them once more.",
            "数据已在内存中：工作进程只会多拷贝一次。",
        )
    return None


def _waiting_s(run: Run) -> float | None:
    """Seconds a step that the device waits for input; None for a prediction, which cannot know."""
    if run.origin != "measured":
        return None
    found = [f.max_gain_s for f in run.analysis.findings if f.kind == "input_bound"]
    return (found[0] if found else 0.0) or 0.0


register(LoaderWorkers())
