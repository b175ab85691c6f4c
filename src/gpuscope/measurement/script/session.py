"""Watch a program's steps: let them warm up, record a few, time the others, make a Run of it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuscope.document.text import Text, verbatim
from gpuscope.measurement.profiling import EXTRA_STEPS
from gpuscope.measurement.script.other_profilers import before_another_profiler, profiling
from gpuscope.measurement.script.step_clock import StepClock
from gpuscope.measurement.script.step_times import AFTER_GAP, intervals
from gpuscope.measurement.statistics import settled_from
from gpuscope.program.script.step_finder import Source, StepFinder
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.measurement.script.ranks import Arrived
    from gpuscope.measurement.script.result import Seen

AUTO_LEAST = 6
AUTO_MOST = 50
"""Without `skip`, recording begins once the step time has settled: after at least and at most so
many steps."""

JUDGED_EVERY = 4
"""Steps between two looks at whether they have settled: a look costs some 0.1 ms."""

RANKS_SKIP = 12
"""Steps that each of several ranks lets pass without `skip`. They must record the same ones; to
settle that by asking each other could disturb or block the program, counting cannot."""

PREPARE_BEFORE = 2
RANKS_EXTRA = 1
"""Several ranks start the profiler's machinery so many steps before they record, since it takes
each of them another time; and so many more steps are left out at the begin."""

TIMED_AFTER = 200
"""Steps timed after the recording."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to record.

    Attributes:
        steps: how many.
        skip: steps to let pass first; None waits until the step time has settled.
        by: what a step is; None finds out.
        memory_history: also keep the allocator's history of the recorded steps.
        stacks: also record Python stacks (slow, large).
        name: of the run.
        world_size: processes of the program; several record the same steps, by number.
        fresh: the program has not begun yet.
    """

    steps: int = 3
    skip: int | None = None
    by: Source | None = None
    memory_history: bool = False
    stacks: bool = False
    name: str = "profile"
    world_size: int = 1
    fresh: bool = False

    @property
    def fixed_skip(self) -> int | None:
        """Steps to let pass first; None where it depends on when their time has settled."""
        if self.skip is not None:
            return max(1, self.skip)
        return RANKS_SKIP if self.world_size > 1 else None

    @property
    def steps_in_all(self) -> int:
        """Steps under the profiler: those asked for and those that are left out."""
        return self.steps + EXTRA_STEPS + (RANKS_EXTRA if self.world_size > 1 else 0)


class Session:
    """From `start` to `finish`; everything in between happens at the program's own steps.

    Nothing here raises into the program: what goes wrong ends the recording and is told by
    `problems`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._finder = StepFinder(self._on_boundary, by=settings.by, fresh=settings.fresh)
        self._source: Source | None = None
        self._before, self._after = StepClock(), StepClock()
        self._prepared_at: int | None = None
        self._recorded = 0
        self._profiler: Any = None
        self._stack = ExitStack()
        self._mark: Any = None
        self._state = "waiting"
        self._manual = False
        self._accelerator: Any = None
        self._readings: list[Any] = []
        self._sensor: Any = None
        self._recorded_wall_s: float | None = None
        self.history: dict[str, Any] | None = None
        self.problems: list[str] = []

    @property
    def steps_seen(self) -> int:
        """Step boundaries met so far."""
        return len(self._before) + self._recorded + len(self._after)

    def start(self) -> None:
        """Begin to look for steps (torch must be imported)."""
        self._finder.start()

    def step(self) -> None:
        """A step has ended: said by the program itself, which then is the only one to say it."""
        if not self._manual:
            self._manual = True
            self._finder.stop()
            if self._state == "waiting":
                self._before.clear()
        self._on_boundary("call")

    # -- at each boundary -------------------------------------------------------------------------

    def _on_boundary(self, source: Source) -> None:
        try:
            if self._manual and source != "call":
                return
            self._advance(source)
        except Exception as error:  # the program must not notice
            text = str(error).strip().split("\n")[0]
            why = f"{type(error).__name__}: {text}"
            self.problems.append(Text("The recording failed: {why}", why=why))
            self._abandon()

    def _advance(self, source: Source) -> None:
        if self._state == "waiting":
            if source != self._source:  # forward calls, and then an optimizer: other steps
                self._before.clear()
                self._source = source
            self._before.mark()
            if profiling():
                return
            if self._warm():
                self._begin()
            elif self._ranks_prepare():
                self._prepare()
        elif self._state == "recording":
            self._recorded += 1
            if self._recorded >= self._settings.steps_in_all:
                self._end()
            else:
                self._new_mark()
        elif self._state == "after":
            self._read_sensor(self._after.mark())
            if len(self._after) >= TIMED_AFTER:
                self._state = "done"
                self._finder.stop()

    def _warm(self) -> bool:
        skip, seen = self._settings.fixed_skip, len(self._before)
        if skip is not None:
            return seen >= skip
        if seen <= AUTO_LEAST or seen % JUDGED_EVERY:
            return False
        return seen > AUTO_MOST or settled_from(self._before.host_intervals_s()) is not None

    def _ranks_prepare(self) -> bool:
        skip = self._settings.fixed_skip
        if self._settings.world_size == 1 or self._prepared_at is not None or skip is None:
            return False
        return len(self._before) >= skip - PREPARE_BEFORE

    def _prepare(self) -> None:
        from gpuscope.measurement.profiling import start_up

        self._prepared_at = len(self._before)
        self._accelerator = _current_accelerator()
        start_up(self._accelerator)

    def _begin(self) -> None:
        from gpuscope.measurement.profiling import make_profiler

        if self._prepared_at is None:
            self._prepare()
        if self._settings.memory_history:
            _record_history(self._accelerator)
        self._accelerator.synchronize()
        self._profiler = make_profiler(
            self._accelerator, memory=self._accelerator.is_gpu, stacks=self._settings.stacks
        )
        self._profiler.start()
        self._state = "recording"
        self._stack.enter_context(before_another_profiler(self._give_way))
        self._begun = time.perf_counter()
        self._mark_modules()
        self._new_mark()

    def _mark_modules(self) -> None:
        from gpuscope.measurement.module_marks import may_be_marked, module_marks
        from gpuscope.measurement.warmup import compiled_graphs

        if may_be_marked(compiled_graphs()):
            self._stack.enter_context(module_marks())

    def _new_mark(self) -> None:
        from gpuscope.measurement.profiling import step_mark

        self._close_mark()
        self._mark = step_mark()
        self._mark.__enter__()

    def _close_mark(self) -> None:
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None

    def _give_way(self) -> None:
        """The program starts a profiler of its own, and there can be only one: ours ends."""
        if self._state == "recording":
            self._recorded += 1
            self._end()
            self.problems.append(
                Text("The recording ended early: the program started its own profiler.")
            )

    def _end(self) -> None:
        self._close_mark()
        self._stack.close()
        self._accelerator.synchronize()
        marks = max(1, self._recorded)
        self._recorded_wall_s = (time.perf_counter() - self._begun) / marks
        self._profiler.stop()
        if self._settings.memory_history:
            self.history = _take_history(self._accelerator)
        self._state = "after"

    def _read_sensor(self, now: float) -> None:
        """The energy counter, first after the gap, then again once there is enough of it."""
        if len(self._after) == AFTER_GAP and self._accelerator.is_gpu:
            from gpuscope.measurement.sensors import open_sensor

            self._sensor = open_sensor(self._accelerator.index)
        elif not self._readings or now - self._readings[-1].time_s < 1.0:
            return
        if self._sensor is not None:
            self._readings.append(self._sensor.read())

    def _abandon(self) -> None:
        self._state = "failed"
        self._finder.stop()
        for close in (self._close_mark, self._stack.close):
            try:
                close()
            except Exception:
                self._mark = None
        if self._profiler is not None:
            try:
                self._profiler.stop()
            except Exception:
                self._profiler = None

    # -- at the end -------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the recording wherever it is; what was recorded stays."""
        self._finder.stop()
        if self._state == "recording":
            try:
                self._recorded += 1
                self._end()
                self.problems.append(Text("The program ended in the middle of the recording."))
            except Exception as error:
                self.problems.append(Text("The recording failed: {why}", why=error))
                self._abandon()
        if self._sensor is not None:
            self._sensor.close()

    def why_nothing(self) -> tuple[str, Text] | None:
        """Return what happened and what to do where no step was recorded; else None."""
        if self._profiler is not None and self._state in ("after", "done"):
            return None
        if self._state == "failed":
            return self.problems[-1], Text("Type: gpuscope profile --help")
        if not len(self._before):
            return (
                Text(
                    "No step was seen: no optimizer stepped, and no module was called without "
                    "gradients."
                ),
                Text(
                    "Give the program more to do, or mark its steps: with gs.profile() as p: "
                    "p.step()"
                ),
            )
        settings, seen = self._settings, len(self._before)
        asked = Text("at least 8 are needed, settled ones")
        if settings.fixed_skip is not None:
            asked = verbatim(f"--skip {settings.fixed_skip}")
        return (
            Text(
                "The program ended after {seen} steps, before the recording began ({asked}).",
                seen=seen,
                asked=asked,
            ),
            Text(
                "Type: gpuscope profile --skip {skip} ...",
                skip=max(1, seen - settings.steps_in_all + 1),
            ),
        )

    def export(self, path: Path) -> None:
        """Write the trace that was recorded (see `why_nothing`)."""
        from gpuscope.measurement.profiling import export_trace

        export_trace(self._profiler, path)

    @property
    def on_gpu(self) -> bool:
        """Whether the program's device is another than the host's processor."""
        return self._accelerator is not None and bool(self._accelerator.is_gpu)

    def run_of(self, trace: Path) -> Run:
        """Return the run of a trace that `export` wrote."""
        from gpuscope.measurement.script.result import run_of_trace

        return run_of_trace(trace, self._seen(), self._settings.steps)

    @property
    def first_step(self) -> int | None:
        """Boundaries met when the recording began; None if nothing was recorded."""
        return len(self._before) if self.why_nothing() is None else None

    def run_of_all(self, folder: Path, arrived: Arrived) -> Run:
        """Return the joint run of the ranks' traces; times without the profiler are ours.

        Args:
            folder: where the traces are.
            arrived: the ranks that have one.
        """
        from gpuscope.measurement.script.ranks import merged
        from gpuscope.measurement.script.result import run_of_timeline

        settings, ranks = self._settings, arrived.ranks
        timeline = merged(folder, settings.world_size, ranks, not self.on_gpu, settings.steps)
        self.problems.append(Text("Ranks with a trace: {ranks}.", ranks=", ".join(map(str, ranks))))
        apart = arrived.apart(self.first_step)
        if apart:
            self.problems.append(
                Text(
                    "Other steps than those of rank 0 were recorded on rank {ranks}: what ranks do "
                    "cannot be compared.",
                    ranks=", ".join(map(str, apart)),
                )
            )
        return run_of_timeline(timeline, self._seen())

    def _seen(self) -> Seen:
        from gpuscope.measurement.script.result import Seen

        return Seen(
            name=self._settings.name,
            accelerator=self._accelerator,
            timed=intervals(self._before, self._after, self._prepared_at, self.on_gpu),
            warmup_steps=len(self._before),
            profiled_step_s=self._recorded_wall_s,
            readings=tuple(self._readings),
            notes=tuple(self.problems),
            history=self.history,
        )


def _current_accelerator() -> Any:
    """The device that the program uses, or the CPU."""
    from gpuscope.errors import GpuscopeError
    from gpuscope.measurement.accelerator import Accelerator, choose_accelerator

    try:
        accelerator = choose_accelerator(None)
    except GpuscopeError:
        return Accelerator("cpu")
    held = accelerator.allocated_bytes()
    return Accelerator("cpu") if held == 0 else accelerator


def _record_history(accelerator: Any) -> None:
    import torch

    if accelerator.kind == "cuda":
        torch.cuda.memory._record_memory_history(max_entries=200_000)


def _take_history(accelerator: Any) -> dict[str, Any] | None:
    import torch

    if accelerator.kind != "cuda":
        return None
    snapshot: dict[str, Any] = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(None)
    return snapshot
