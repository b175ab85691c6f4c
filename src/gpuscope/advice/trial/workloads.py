"""What is tried, step by step: a `build`, or a whole script that pauses between its steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.trial.failures import TooShortError
from gpuscope.document.text import Text
from gpuscope.errors import WorkloadError
from gpuscope.measurement.accelerator import Accelerator
from gpuscope.measurement.epochs import Epochs
from gpuscope.measurement.failure import run_workload

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
        self,
        build: Callable[[], Any],
        live: Live,
        accelerator: Accelerator,
        prepared: Callable[[], None] = lambda: None,
    ) -> None:
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
        from gpuscope.measurement.on_host import HostStep, on_host

        with on_host():
            return HostStep(_step(self.live.wrap(build, self.epochs.restarting)()))

    def advance(self, steps: int) -> float:
        """Run steps and wait for the device; seconds.

        Raises:
            WorkloadError, OutOfDeviceMemoryError: a step failed.
        """
        elapsed: float = run_workload(Text("the step"), lambda: self._run(steps))
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
        last_pass: the pass over its loader that does not end; 0 for none.
        live: the changes to make to it.
        accelerator: where it runs.
    """

    def __init__(
        self,
        path: str,
        arguments: tuple[str, ...],
        live: Live,
        accelerator: Accelerator,
        module: bool = False,
        last_pass: int = 0,
    ) -> None:
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
        self._last_pass = last_pass
        self.epochs = Epochs(lambda: self._steps, last_pass)
        self.epochs.start()

    def too_short(self) -> TooShortError:
        """That it ended, or is about to, before it was timed."""
        return TooShortError(self._steps, 0 if self._last_pass else self.epochs.passes)

    def run(self) -> None:
        """Run the script to its end; what it raises is told to whoever waits in `advance`."""
        from gpuscope.program.script import runner
        from gpuscope.program.script.step_finder import StepFinder

        finder = StepFinder(self._boundary, fresh=True)
        place: AbstractContextManager[Any] = nullcontext()
        if self._accelerator.is_gpu:
            self._accelerator.use()
        else:
            from gpuscope.measurement.on_host import on_host

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
        run_workload(Text("the script"), self._check)

    def advance(self, steps: int) -> float:
        """Let it run so many steps; seconds.

        Raises:
            WorkloadError, OutOfDeviceMemoryError: it ended or failed before.
        """
        run_workload(Text("the script"), self._check)
        self._left = steps
        self._go.release()
        self._done.acquire()
        run_workload(Text("the script"), self._check)
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
                Text("No step was seen in the script."),
                Text("No optimizer stepped, and no module was called without gradients."),
                Text("Put the work into a function `build` that returns a step: file.py:build"),
            )
        raise self.too_short()


def _dropped() -> object:
    raise WorkloadError(Text("This step was dropped."), "", Text("Build it again."))


def _step(built: Any) -> Callable[[], object]:
    if not callable(built):
        raise WorkloadError(
            Text("build() did not return a step."),
            Text("It returned {name}.", name=type(built).__name__),
            Text("End build() with `return step`."),
        )
    step: Callable[[], object] = built
    return step
