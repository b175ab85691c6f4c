"""Record a few steps under torch.profiler and turn them into a Timeline."""

from __future__ import annotations

import gzip
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuscope.measurement.accelerator import Accelerator
from gpuscope.measurement.module_marks import PREFIX, may_be_marked, module_marks
from gpuscope.timeline.types import Timeline

STEP_MARK = "gpuscope.step"

EXTRA_STEPS = 2
"""Steps recorded besides those asked for: the profiler's first, and one that ends the last."""


def activities(accelerator: Accelerator) -> list[Any]:
    """Return what the profiler is to watch: the host and the device."""
    from torch.profiler import ProfilerActivity

    kinds = {"cuda": "CUDA", "xpu": "XPU", "mtia": "MTIA"}
    name = kinds.get(accelerator.kind, "")
    found = getattr(ProfilerActivity, name, None) if name else None
    return [ProfilerActivity.CPU, *([found] if found is not None else [])]


def make_profiler(accelerator: Accelerator, *, memory: bool = False, stacks: bool = False) -> Any:
    """Return a profiler that has not been started."""
    from torch.profiler import profile

    return profile(
        activities=activities(accelerator),
        record_shapes=True,
        profile_memory=memory,
        with_stack=stacks,
    )


@contextmanager
def step_mark() -> Iterator[None]:
    """Mark one step in the trace."""
    from torch.profiler import record_function

    with record_function(STEP_MARK):
        yield


def start_up(accelerator: Accelerator) -> None:
    """Start the profiler's machinery once: its first use takes seconds on a GPU."""
    import torch

    with make_profiler(accelerator):
        torch.ones(1, device=accelerator.torch_name)
        accelerator.synchronize()


def record_steps(
    step: Callable[[], object],
    accelerator: Accelerator,
    *,
    steps: int,
    memory: bool = True,
    compiled_graphs: int | None = None,
) -> tuple[Timeline, float]:
    """Profile some steps without waiting for the device in between.

    Two more are run than asked for: the first under a profiler is slow and is left out, and the
    last one only ends the one before (see `steady`).

    Args:
        step: runs one step.
        accelerator: where.
        steps: how many the timeline is to have.
        memory: also record allocations (on a GPU).
        compiled_graphs: graphs that the workload has compiled; compiled code gets no marks.

    Returns:
        The timeline with its step windows, and the mean seconds of a step under the profiler.
    """
    start_up(accelerator)
    step()
    accelerator.synchronize()
    profiler = make_profiler(accelerator, memory=memory and accelerator.is_gpu)
    with ExitStack() as stack:
        marked = may_be_marked(compiled_graphs)
        stack.enter_context(module_marks() if marked else nullcontext())
        profiler.start()
        begin = time.perf_counter()
        try:
            for _ in range(steps + EXTRA_STEPS):
                with step_mark():
                    step()
            accelerator.synchronize()
            mean_s = (time.perf_counter() - begin) / (steps + EXTRA_STEPS)
        finally:
            profiler.stop()
    timeline = timeline_of(profiler, accelerator)
    return timeline, mean_s


def timeline_of(profiler: Any, accelerator: Accelerator) -> Timeline:
    """Read what a stopped profiler recorded."""
    from gpuscope.timeline.kineto import read_trace

    with tempfile.TemporaryDirectory(prefix="gpuscope-") as folder:
        path = Path(folder) / "trace.json"
        export_trace(profiler, path)
        timeline = read_trace(path)
    # The file is gone; a path to it would lead nowhere.
    sources = tuple(replace(source, path="") for source in timeline.sources)
    return own_timeline(replace(timeline, sources=sources), accelerator)


def export_trace(profiler: Any, path: Path) -> None:
    """Write a stopped profiler's trace, compressed if the name ends in ".gz"; in full or not."""
    part = path.with_name(f".{path.name}.part.json")
    try:
        profiler.export_chrome_trace(str(part))
        if path.name.endswith(".gz"):
            packed = part.with_name(part.name + ".gz")
            with part.open("rb") as source, gzip.open(packed, "wb", 3) as out:
                shutil.copyfileobj(source, out, 1 << 22)
            packed.replace(path)
        else:
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def own_timeline(timeline: Timeline, accelerator: Accelerator, most: int | None = None) -> Timeline:
    """Cut a timeline of our own recording to its steady steps; on a CPU, give it device work.

    Args:
        timeline: as recorded.
        accelerator: where.
        most: the last so many steps are kept; None keeps all but the first.
    """
    from gpuscope.measurement.host_kernels import with_host_kernels
    from gpuscope.measurement.steady import steady

    named = with_plain_names(timeline)
    return steady(named if accelerator.is_gpu else with_host_kernels(named), most)


def with_plain_names(timeline: Timeline) -> Timeline:
    """Give our own marks the names that a reader of the timeline expects: "module layers.0"."""

    def plain(name: str) -> str:
        if name.startswith(PREFIX):
            return f"module {name.removeprefix(PREFIX) or '(whole model)'}"
        return "step" if name == STEP_MARK else name

    return replace(timeline, names=tuple(plain(name) for name in timeline.names))
