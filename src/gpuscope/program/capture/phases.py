"""The parts of a capture, told by whoever runs the user's code: built, a first step, the recorded
one."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from gpuscope.document.text import Text
from gpuscope.errors import WorkloadError
from gpuscope.program.capture.failure import run_user_code
from gpuscope.program.types import Program

__all__ = ["Observer", "Phases", "run_build"]

Build = Callable[[], Callable[[], object]]


class Observer(Protocol):
    """Someone who looks at modules and optimizers while they still exist."""

    def build_begins(self, recorder: Any) -> None:
        """Nothing has been run yet."""

    def step_begins(self, recorder: Any) -> None:
        """The first step is over, the recorded one comes next."""

    def step_ends(self, recorder: Any) -> None:
        """The recorded step is over."""


class Phases:
    """What the recorder does between the parts.

    Args:
        recorder: of the capture, at work.
        program: makes the program once the step is recorded.
        observer: told when the recorded step begins and ends.

    Attributes:
        program: the program; None until the step is over.
        compiled: how `torch.compile` had been asked for when the recorded step began.
    """

    def __init__(
        self, recorder: Any, program: Callable[[], Program], observer: Observer | None = None
    ) -> None:
        self.recorder = recorder
        self.program: Program | None = None
        self.compiled = ""
        self._build_peak_bytes = 0
        self._made, self._observer = program, observer
        if observer is not None:
            observer.build_begins(recorder)

    def built(self) -> None:
        """Model and data are made; a first step comes next."""
        self._build_peak_bytes = self.recorder.storages.held.reserved_bytes
        self.recorder.built()

    def step_begins(self) -> None:
        """What only a first step makes is there; the step to record comes next."""
        gc.collect()
        self.compiled = self.recorder.compiled
        self.recorder.begin_step()
        if self._observer is not None:
            self._observer.step_begins(self.recorder)
        self.recorder.python.start()

    def all_begins(self) -> None:
        """All that comes from now on is the step; its Python counts from the first device work."""
        self.recorder.begin_step()
        self.recorder.python_waits = True

    def stop_counting(self) -> None:
        """The step's Python is over, also where it failed."""
        self.recorder.python.stop()

    def step_ends(self) -> None:
        """The step is over, and its Python no longer counted: make the program of it."""
        self.recorder.recording = False
        if self._observer is not None:
            self._observer.step_ends(self.recorder)
        self.program = replace(self._made(), build_peak_bytes=self._build_peak_bytes)


def run_build(build: Build, phases: Phases) -> None:
    """Run `build()` and the step it returns, twice.

    Raises:
        WorkloadError: `build` or the step raised, or `build` returned no step.
        CaptureError: an operator cannot be captured and `strict` is set.
    """
    step = run_user_code("build()", build)
    phases.built()
    if not callable(step):
        raise WorkloadError(
            Text("build() did not return a step."),
            Text(
                "It returned {name}; gpuscope needs a function without arguments that runs one "
                "step.",
                name=type(step).__name__,
            ),
            Text("End build() with `return step`."),
        )
    run_user_code(Text("the first step"), step)
    phases.step_begins()
    try:
        run_user_code(Text("the second step"), step)
    finally:
        phases.stop_counting()
    phases.step_ends()
