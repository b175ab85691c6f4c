"""Run the benches of this machine, one after the other, and keep what they find."""

from __future__ import annotations

import datetime
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope.document.text import Text, sentences
from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError, UnsupportedError
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import ANY_STATE, KernelTimer, is_lost, reason
from gpuscope.measurement.bench.machine import accelerator_count, default_name, facts, notices
from gpuscope.measurement.bench.registry import Bench, chosen_benches
from gpuscope.measurement.bench.store import (
    PARTIAL,
    POINTS,
    SUMMARY,
    PointLog,
    load_bench,
    save_bench,
)
from gpuscope.measurement.bench.types import BenchResult, BenchRun, Point, params_key

if TYPE_CHECKING:
    from gpuscope.hardware import Device
    from gpuscope.measurement.accelerator import Accelerator
    from gpuscope.measurement.sensors import Sensor


INTERRUPTED, LOST = "interrupted", "lost"

WITHOUT_GPU = Text(
    "Type: gpuscope bench --device cpu (this host's own costs), gpuscope bench --replay FOLDER "
    "(a saved bench), or gpuscope predict ... (needs no GPU)."
)
"""What can still be done."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What is going on.

    Attributes:
        bench: that runs.
        number, of: which of how many, from 1.
        points: measured by it so far.
    """

    bench: Bench
    number: int
    of: int
    points: int


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure.

    Attributes:
        only: names of benches; None for all.
        quick: a few points of each.
        device: "cuda", "cuda:1", "cpu"; None takes this machine's GPU.
        gpus: devices that may take part; None for all that there are.
        resume: go on with the run in the output folder.
    """

    only: tuple[str, ...] | None = None
    quick: bool = False
    device: str | None = None
    gpus: int | None = None
    resume: bool = False


def run_bench(
    options: Options | None = None,
    folder: str | Path | None = None,
    *,
    progress: Callable[[Progress], None] = lambda _progress: None,
    notice: Callable[[Text], None] = lambda _notice: None,
) -> BenchResult:
    """Measure this machine.

    Args:
        options: what to measure; everything by default.
        folder: where the result is saved, while it is measured and at the end; None keeps it in
            memory only.
        progress: told at every point.
        notice: told what may disturb the figures.

    Returns:
        What was found; also after an interruption (`interrupted`).

    Raises:
        UnsupportedError: no GPU that PyTorch can use, or its profiler gives no kernel times.
        UnknownNameError: no such bench.
        InvalidValueError: no such device; or nothing to measure on it.
        InputFileError: the folder cannot be written to or, on resuming, read.
    """
    from gpuscope.measurement.sensors import open_sensor

    asked = options or Options()
    chosen = chosen_benches(asked.only)
    accelerator = _accelerator(asked)
    _check_possible(chosen, accelerator, asked)
    sensor = open_sensor(accelerator.index) if accelerator.is_gpu else None
    try:
        session = _Session(asked, accelerator, sensor, chosen, progress)
        for each in session.notices:
            notice(each)
        return session.run(Path(folder) if folder is not None else None)
    finally:
        if sensor is not None:
            sensor.close()


def _check_possible(chosen: tuple[Bench, ...], accelerator: Accelerator, asked: Options) -> None:
    if accelerator.is_gpu or any(b.needs == "any" for b in chosen):
        return
    if asked.only:
        raise InvalidValueError(
            Text("{only}: needs a GPU.", only=", ".join(asked.only)),
            Text("Without one only the host can be measured."),
            Text("Type: gpuscope bench --device cpu"),
        )
    raise UnsupportedError(
        Text("No bench runs on the processor."), "", Text("Type: gpuscope bench --list")
    )


class _Session:
    """One run of several benches on one device."""

    def __init__(
        self,
        asked: Options,
        accelerator: Accelerator,
        sensor: Sensor | None,
        chosen: tuple[Bench, ...],
        progress: Callable[[Progress], None],
    ) -> None:
        self.asked = asked
        self.accelerator = accelerator
        self.sensor = sensor
        self.chosen = chosen
        self.progress = progress
        self.notices = notices(accelerator, sensor)
        self.device = self._device()
        self.gpus = self._gpus()
        self.began = time.perf_counter()
        self.points: dict[tuple[str, ...], Point] = {}

    def run(self, folder: Path | None) -> BenchResult:
        head = self._head()
        if self.asked.resume:
            head = self._resumed(head, folder)
        for point in head.points:
            self.points[point.key] = point
        self._prepare()
        log = PointLog(folder, head) if folder is not None else None
        runs, interrupted, ended = list(head.runs), False, ""
        timer = KernelTimer(self.accelerator, self.device, self.sensor)
        timer.failures = [f for f in head.failures if f.lost]
        try:
            for number, bench in enumerate(self.chosen, 1):
                run, ended = self._bench(bench, number, timer, log)
                runs = [r for r in runs if r.name != bench.name] + [run]
                if ended:
                    break
            interrupted = ended == INTERRUPTED
        except KeyboardInterrupt:  # between two benches
            interrupted = True
        result = replace(
            head,
            points=tuple(self.points.values()),
            failures=tuple(timer.failures),
            runs=tuple(runs),
            interrupted=interrupted,
            seconds=head.seconds + time.perf_counter() - self.began,
        )
        if log is not None and folder is not None:
            log.close()
            save_bench(result, folder)
        return result

    def _bench(
        self, bench: Bench, number: int, timer: KernelTimer, log: PointLog | None
    ) -> tuple[BenchRun, str]:
        """Run one bench; the second value says why no other may follow, "" if one may."""
        skipped = self._why_not(bench)
        if skipped is not None:
            return BenchRun(bench.name, 0.0, 0, 0, skipped), ""
        began, count, ended = time.perf_counter(), 0, ""
        known = len(timer.failures)
        context = self._context(bench, timer)
        timer.left = 0
        failed = Text("")
        self.progress(Progress(bench, number, len(self.chosen), 0))
        try:
            with _settings_kept():
                for point in bench.run(context):
                    count += 1
                    self.points[point.key] = point
                    if log is not None:
                        log.point(point)
                    self.progress(Progress(bench, number, len(self.chosen), count))
        except KeyboardInterrupt:
            ended, failed = INTERRUPTED, Text("It was interrupted.")
        except GpuscopeError as error:
            failed = sentences(error.what, error.why, error.next_step)
        except Exception as error:  # one bench that fails must not keep the others from running
            failed = Text("It failed: {reason}", reason=reason(error))
            ended = LOST if is_lost(error) else ""
        timer.failures += context.failures
        if log is not None:
            for failure in timer.failures[known:]:
                log.failure(failure)
        took = time.perf_counter() - began
        left = timer.left + context.left
        return BenchRun(bench.name, took, count, left, failed), ended

    def _context(self, bench: Bench, timer: KernelTimer) -> Context:
        seconds = bench.quick_s if self.asked.quick else bench.full_s
        done = {(p.bench, p.family, params_key(p.params), p.state) for p in self.points.values()}
        done |= {(*f.key, ANY_STATE) for f in timer.failures if f.lost}
        return Context(
            self.accelerator,
            self.device,
            self.sensor,
            timer,
            self.asked.quick,
            time.perf_counter() + seconds,
            frozenset(done),
            self.gpus,
        )

    def _why_not(self, bench: Bench) -> Text | None:
        if not self.accelerator.is_gpu and bench.needs != "any":
            return Text("It needs a GPU.")
        if bench.needs == "gpus" and self.gpus < 2:
            return Text("It needs two GPUs.")
        return None

    def _head(self) -> BenchResult:
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return BenchResult(
            facts(self.accelerator, self.sensor),
            self.device.id if self.device else "",
            (),
            warnings=tuple(self.notices),
            quick=self.asked.quick,
            started=started,
        )

    def _resumed(self, head: BenchResult, folder: Path | None) -> BenchResult:
        """What an earlier run on the same machine found."""
        if folder is None:
            raise InvalidValueError(
                Text("There is nothing to resume."), "", Text("Type: --output FOLDER")
            )
        earlier = load_bench(folder)
        for name in ("device", "uuid", "torch", "driver", "host"):
            here, there = head.machine.get(name), earlier.machine.get(name)
            if here != there:
                raise InputFileError(
                    Text("{folder} is of another machine.", folder=folder),
                    Text(
                        "Its {name} is {there}, here it is {here}.",
                        name=name,
                        there=there,
                        here=here,
                    ),
                    Text("Choose another folder, or leave out --resume."),
                )
        return replace(
            head,
            points=earlier.points,
            failures=earlier.failures,
            runs=earlier.runs,
            started=earlier.started,
            seconds=earlier.seconds,
            quick=earlier.quick and self.asked.quick,
        )

    def _device(self) -> Device | None:
        """The catalogue's entry; a slice has other limits than the whole device."""
        if self.sensor is not None and self.sensor.info.slice:
            return None
        return self.accelerator.catalogue_device()

    def _gpus(self) -> int:
        there = accelerator_count(self.accelerator) if self.accelerator.is_gpu else 0
        asked = self.asked.gpus
        if asked is None:
            return there
        if asked < 1 or asked > there:
            raise InvalidValueError(
                Text("There are not {asked} devices.", asked=asked),
                Text("PyTorch sees {there}.", there=there),
                Text("Type: --gpus {most}", most=max(1, there)),
            )
        return asked

    def _prepare(self) -> None:
        """Make the device the current one, and see that the profiler gives kernel times."""
        self.accelerator.use()
        if self.accelerator.is_gpu and any(b.needs != "any" for b in self.chosen):
            check_profiler(self.accelerator)


def check_profiler(accelerator: Accelerator) -> None:
    """Refuse a machine whose profiler sees no kernels.

    Raises:
        UnsupportedError: it does not; says what may be the reason.
    """
    from gpuscope.measurement.bench.harness import BenchCase
    from gpuscope.measurement.profiling import start_up

    def make(device: str) -> Callable[[], object]:
        import torch

        x = torch.ones(1024, device=device)
        return lambda: x.add_(1.0)

    start_up(accelerator)
    timer = KernelTimer(accelerator)
    probe = timer.run(
        "probe",
        [BenchCase("probe", {}, make, ("hot",), 2)],
        done=frozenset(),
        deadline_s=float("inf"),
    )
    if not list(probe):
        raise UnsupportedError(
            Text("PyTorch's profiler shows no kernels on this device."),
            Text(
                "Another profiler may be attached, its library (CUPTI, roctracer) may be missing, "
                "or tracing may be reserved to the administrator (NVIDIA: ERR_NVGPUCTRPERM)."
            ),
            Text(
                "Close other profilers, or see https://developer.nvidia.com/ERR_NVGPUCTRPERM; "
                "without it: gpuscope bench --only host,launch"
            ),
        )


@contextmanager
def _settings_kept() -> Iterator[None]:
    """Put back the settings of PyTorch that benches change."""
    import torch

    backends = torch.backends
    before = (backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32, backends.cudnn.benchmark)
    try:
        yield
    finally:
        (backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32, backends.cudnn.benchmark) = (
            before
        )


def folder_for(options: Options, output: Path | None) -> Path:
    """Return the folder that a run writes: the one asked for, or one named after the machine.

    Raises:
        InputFileError: the folder asked for holds a bench already, and it is not to be resumed.
        UnsupportedError, InvalidValueError: see `run_bench`.
    """
    if output is not None:
        if not options.resume and _holds_bench(output):
            raise InputFileError(
                Text("{output} holds a bench already.", output=output),
                "",
                Text("Type: --resume to go on with it, or choose another folder."),
            )
        return output
    from gpuscope.measurement.accelerator import machine_facts

    chosen_benches(options.only)  # a wrong name is told before a missing device
    accelerator = _accelerator(options)
    machine = machine_facts(accelerator) | {"host": platform.node()}
    name = default_name(machine, quick=options.quick)
    folder, number = Path(name), 2
    while not options.resume and _holds_bench(folder):
        folder, number = Path(f"{name}-{number}"), number + 1
    return folder


def _holds_bench(folder: Path) -> bool:
    return any((folder / name).exists() for name in (POINTS, SUMMARY, PARTIAL))


def _accelerator(options: Options) -> Accelerator:
    from gpuscope.measurement.accelerator import choose_accelerator

    try:
        return choose_accelerator(options.device)
    except UnsupportedError as error:
        raise UnsupportedError(error.what, error.why, WITHOUT_GPU) from None
