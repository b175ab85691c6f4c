"""Whole scripts: run as `python` runs them, their steps found, nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope.document.text import Text
from gpuscope.errors import WorkloadError

if TYPE_CHECKING:
    from gpuscope.program.capture.phases import Phases
    from gpuscope.program.script.prices import Prices
    from gpuscope.program.world import World

__all__ = ["Script"]


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Script:
    """A script in the place of a `build`: captured as it runs, between two steps of its own.

    Attributes:
        target: path of the file, or the name of a module (`python -m`).
        arguments: what it finds in `sys.argv[1:]`.
        module: the target is a module.
        allow_writes: what it writes is real, else it goes to a copy of the files.
        keep: folder in which charts that it draws are kept, an absolute path; "": they vanish.
        step: what is taken as its step: "whole", "optimizer", "forward", a number; "": what is
            found.
        prices: what operators cost where it is to run, for the clock that it reads; None: its
            clock is the real one.
        begins: called before it runs, under the capture.
        step_ends: called at each boundary between its steps.
    """

    target: str
    arguments: tuple[str, ...] = ()
    module: bool = False
    allow_writes: bool = False
    keep: str = ""
    step: str = ""
    prices: Prices | None = None
    begins: Callable[[], None] = _nothing
    step_ends: Callable[[], None] = _nothing

    @property
    def __name__(self) -> str:
        """What to call a program of it."""
        return self.target

    @property
    def file(self) -> Path:
        """Its source.

        Raises:
            InputFileError: there is no such file or module.
        """
        from gpuscope.program.script import runner

        program = runner.Program(self.target, self.arguments, self.module)
        runner.check(program)
        return runner.source_of(program)

    def __call__(self) -> Callable[[], object]:
        """There is no step to be called; whoever only knows builds is told so.

        Raises:
            WorkloadError: always.
        """
        raise WorkloadError(
            Text("{target} is a whole script: it has no step to call.", target=self.target),
            Text("It has no function `build` that returns one."),
            Text(
                "Measure it with: gpuscope profile {module}{target}",
                module="-m " * self.module,
                target=self.target,
            ),
        )

    def run(self, phases: Phases, world: World | None = None) -> None:
        """Run it until one of its steps is recorded.

        Args:
            phases: of the capture that is at work.
            world: the job that it is a rank of.

        Raises:
            NoStepError: it ended before that.
            WorkloadError: it failed, or does what is refused.
            CaptureError: an operator cannot be captured.
            InputFileError: no such file.
        """
        from gpuscope.program.script.capturing import run_script

        run_script(self, phases, world)
