"""What is tried, step by step: a `build`, or a whole script that pauses between its steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from gpuscope.advice.live import Live
from gpuscope.errors import WorkloadError
from gpuscope.measure.accelerator import Accelerator
from gpuscope.measure.epochs import Epochs
from gpuscope.measure.failure import run_workload

__all__ = ["BuildSubject", "ScriptSubject", "Subject"]


class Subject(Protocol):
    """Something that runs so many steps when it is told to."""

    live: Live
    result: object
    """What the last step returned; None of a script."""
    epochs: Epochs
    """Watches its data loaders; those of a script end when its loops do."""

    def advance(self, steps: int) -> float:
        """Run steps and wait for the device; returns the seconds from begin to end."""


class BuildSubject:
    """The step that a `build` returned.

    Args:
        build: the user's, as it stands.
        live: the changes to make to it.
        accelerator: where it runs.
        prepared: called once the workload is built, before its first step.
    """

    def __init__(
        self, build: Callable[[], Any], live: Live, accelerator: Accelerator,
        prepared: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.live = live
        self.result: object = None
        self._accelerator = accelerator
        self.epochs = Epochs()
        self.epochs.start()
        try:
            self._step = run_workload("build()", lambda: self._built(build))
            prepared()
        except BaseException:
            self.epochs.close()
            raise

    def drop(self) -> None:
        """Undo the changes, and let go of the model and of the loader's workers."""
        self.live.forget()
        self.result = None
        self._step = _dropped
        self.epochs.close()

    def _built(self, build: Callable[[], Any]) -> Callable[[], object]:
        accelerator = self._accelerator
        if accelerator.is_gpu:
            accelerator.use()
            return _step(self.live.wrap(build, self.epochs.restarting)())
        from gpuscope.measure.on_host import HostStep, on_host

        with on_host():
            return HostStep(_step(self.live.wrap(build, self.epochs.restarting)()))

    def advance(self, steps: int) -> float:
        """Run steps and wait for the device; seconds.

        Raises:
            WorkloadError, OutOfDeviceMemoryError: a step failed.
        """
        elapsed: float = run_workload("the step", lambda: self._run(steps))
        return elapsed

    def _run(self, steps: int) -> float:
        step = self._step
        start = time.perf_counter()
        for _ in range(steps):
            self.result = step()
        self._accelerator.synchronize()
        return time.perf_counter() - start


class ScriptSubject:
    """A script that stands still at each boundary of its steps until it is told to go on.

    `run` must be called in the process' main thread, where scripts expect to be; the commands are
    given in another one.

    Args:
        path, arguments: of the script.
        module: the path is the name of a module.
        live: the changes to make to it.
        accelerator: where it runs.
    """

    def __init__(
        self, path: str, arguments: tuple[str, ...], live: Live, accelerator: Accelerator,
        module: bool = False,
    ) -> None:  # fmt: skip
        from gpuscope.program.script import runner

        self.live = live
        self.result: object = None
        self._program = runner.Program(path, arguments, module)
        runner.check(self._program)
        self._accelerator = accelerator
        self._go = threading.Semaphore(0)
        self._done = threading.Semaphore(0)
        self._left = 1
        self._steps = 0
        self._started = self._elapsed = 0.0
        self._source = ""
        self._over = False
        self._error: BaseException | None = None
        self.epochs = Epochs()
        self.epochs.start()

    def run(self) -> None:
        """Run the script to its end; what it raises is told to whoever waits in `advance`."""
        from gpuscope.program.script import runner
        from gpuscope.program.script.step_finder import StepFinder

        finder = StepFinder(self._boundary, fresh=True)
        place: AbstractContextManager[Any] = nullcontext()
        if self._accelerator.is_gpu:
            self._accelerator.use()
        else:
            from gpuscope.measure.on_host import on_host

            place = on_host()
        try:
            self.live.start()
            finder.start()
            self._started = time.perf_counter()
            with place:
                self._error = runner.run(self._program)
        except BaseException as error:
            self._error = error
        finally:
            finder.stop()
            self._over = True
            self._done.release()

    def first_boundary(self) -> None:
        """Wait until the script has come to its first boundary.

        Raises:
            WorkloadError, OutOfDeviceMemoryError: it ended or failed before.
        """
        self._done.acquire()
        run_workload("the script", self._check)

    def advance(self, steps: int) -> float:
        """Let it run so many steps; seconds.

        Raises:
            WorkloadError, OutOfDeviceMemoryError: it ended or failed before.
        """
        run_workload("the script", self._check)
        self._left = steps
        self._go.release()
        self._done.acquire()
        run_workload("the script", self._check)
        return self._elapsed

    def _boundary(self, source: str) -> None:
        if source == "forward" and self._source == "optimizer":
            return
        self._source = source
        self.live.step_ended()
        self._steps += 1
        self._left -= 1
        if self._left > 0:
            return
        self._accelerator.synchronize()
        self._elapsed = time.perf_counter() - self._started
        self._done.release()
        self._go.acquire()
        self._started = time.perf_counter()

    def _check(self) -> None:
        if not self._over:
            return
        error = self._error
        if error is not None and not (isinstance(error, SystemExit) and not error.code):
            raise error
        if not self._steps:
            raise WorkloadError(
                "No step was seen in the script.",
                "No optimizer stepped, and no module was called without gradients.",
                "Put the work into a function `build` that returns a step: file.py:build",
            )
        raise WorkloadError(
            f"The script ended after {self._steps} steps, too few for a trial.",
            "A variant is warmed up first, then timed against another one.",
            "Let it run more steps (its own arguments), or give file.py:build.",
        )


def _dropped() -> object:
    raise WorkloadError("This step was dropped.", "", "Build it again.")


def _step(built: Any) -> Callable[[], object]:
    if not callable(built):
        raise WorkloadError(
            "build() did not return a step.", f"It returned {type(built).__name__}.",
            "End build() with `return step`.",
        )  # fmt: skip
    step: Callable[[], object] = built
    return step
