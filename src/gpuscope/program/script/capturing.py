"""A whole script under a capture: run to the end of its first steady step, and no further.

A step of training lies between two steps of its optimizer; where it makes none, between two
backward passes; of inference, between two calls of the model that is called again and again. What
comes before the first boundary stands for `build()`, the first whole step for a first step, the
second is recorded (or the one asked for by its number). Then the script is ended by an exception
that no `except Exception` catches. Where all of the script is to be the step, it runs to its end,
and what lies before and after its device work is cut off. The process is one of its own
(`gpuscope.capturing.script_elsewhere`), in which a job's ranks run one after another: what one
changed of it is put back.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuscope.document.text import Text, joined
from gpuscope.errors import NoStepError, WorkloadError
from gpuscope.program.script import Script, runner
from gpuscope.program.script.charts import Charts
from gpuscope.program.script.step_finder import StepFinder
from gpuscope.program.script.whole_step import take_whole, takes_whole

if TYPE_CHECKING:
    from gpuscope.program.capture.phases import Phases
    from gpuscope.program.types import Program as Recorded
    from gpuscope.program.world import World

__all__ = ["run_script"]

_RECORDED = 3
"""The step that is recorded, counted by boundaries: what comes before the first one stands for
`build()`, the step after that for a first step."""

_BETWEEN = {
    "optimizer": Text("two steps of the optimizer"),
    "backward": Text("two backward passes"),
    "forward": Text("two calls of the model"),
}

_LAST_LINES = 3

_PIPELINING = "torch.distributed.pipelining.schedules"


class _EnoughError(BaseException):
    """The step is recorded: the script need not go on."""


def run_script(script: Script, phases: Phases, world: World | None = None) -> None:
    """See `Script.run`."""
    from gpuscope.program.capture.failure import run_user_code

    program = runner.Program(script.target, script.arguments, script.module)
    runner.check(program)
    steps = _Steps(script, phases)
    said, charts = io.StringIO(), Charts(script.keep)
    try:
        with ExitStack() as stack:
            enter = stack.enter_context
            enter(_as_before())
            charts.begin(stack)
            enter(redirect_stdout(said))
            enter(redirect_stderr(said))
            # Stages learn their shapes in the very first step, which comes before any boundary.
            stack.callback(runner.when_imported(_PIPELINING, phases.built))
            enter(_spawned_here(world.local_rank if world is not None else 0))
            if script.prices is not None:
                from gpuscope.program.capture.virtual_clock import shown

                enter(shown(script.prices, phases.recorder))
            script.begins()
            with steps.found():
                run_user_code(
                    Text("the script {name}", name=script.target),
                    lambda: _run(program, steps),
                    Text(
                        "Make it run by itself first: python {path}",
                        path=f"{'-m ' * script.module}{script.target}",
                    ),
                )
    except WorkloadError as error:
        raise _with_output(error, said.getvalue()) from error
    if steps.whole:
        take_whole(script, phases, said.getvalue())
    elif not steps.over:
        raise _too_short(script, steps)
    note = charts.note() if script.keep or not script.allow_writes else None
    if note is not None:
        phases.program = _with_note(phases.program, note)


class _Steps:
    """Counts the boundaries that matter, and tells the capture of them."""

    def __init__(self, script: Script, phases: Phases) -> None:
        self.counted = 0
        self.passed = 0
        self.whole = takes_whole(script)
        self.number = int(script.step) if script.step.isdecimal() else _RECORDED
        self._source = ""
        self._script, self._phases = script, phases
        by: Any = script.step if script.step in ("optimizer", "forward") else None
        self._forward = by == "forward"
        self._finder = StepFinder(self._boundary, by=by, fresh=True)

    @property
    def trains(self) -> bool:
        """Whether it has made an optimizer."""
        return self._finder.optimizers > 0

    @property
    def over(self) -> bool:
        """Whether the step is recorded."""
        return self._phases.program is not None

    @contextmanager
    def found(self) -> Iterator[None]:
        """Look for steps inside of the block."""
        if self.whole:
            self._phases.all_begins()
        else:
            self._finder.start()
        try:
            yield
        finally:
            self._finder.stop()
            self._phases.stop_counting()

    def script_ends(self) -> None:
        """The script has come to its end."""
        if self.whole:
            self._ends()

    def _ends(self) -> None:
        self._finder.stop()
        self._phases.stop_counting()
        self._phases.step_ends()

    def _boundary(self, source: str) -> None:
        others = self.trains and not self._forward
        if source == "forward" and (others or not self._finder.settled):
            self.passed += 1  # an evaluation before the training, or a model that is called once
            return
        if self.over:
            raise _EnoughError  # the script has caught the last one
        self._script.step_ends()
        if source != self._source and self.counted > 1:
            self._phases.stop_counting()  # other steps than it seemed: an evaluation came first
            self.counted = 1
        self._source = source
        self.counted += 1
        if self.counted == 1:
            self._phases.built()
        if self.counted == self.number - 1:
            self._phases.step_begins()
        elif self.counted == self.number:
            self._ends()
            self._tell(source)
            raise _EnoughError

    def _tell(self, source: str) -> None:
        """Say what was taken as the step, and how to take another."""
        note = Text(
            "The step is no. {number} that lies between {what}. Another: --step whole, --step "
            "optimizer, --step forward, --step N.",
            number=self.number,
            what=_BETWEEN[source],
        )
        self._phases.program = _with_note(self._phases.program, note)


def _with_note(program: Recorded | None, note: Text) -> Recorded:
    assert program is not None
    return replace(program, assumptions=(*program.assumptions, note))


def _run(program: runner.Program, steps: _Steps) -> None:
    error = runner.run(program)
    if error is None or steps.over or (isinstance(error, SystemExit) and not error.code):
        steps.script_ends()
        return
    raise error


@contextmanager
def _spawned_here(rank: int) -> Iterator[None]:
    """`torch.multiprocessing.spawn` runs its function here, as the process of this rank."""
    import torch

    processes: Any = torch.multiprocessing
    replaced = {"spawn": processes.spawn, "start_processes": processes.start_processes}

    def spawn(fn: Any, args: tuple[Any, ...] = (), *others: Any, **options: Any) -> None:
        fn(rank, *args)

    for name in replaced:
        setattr(processes, name, spawn)
    try:
        yield
    finally:
        for name, original in replaced.items():
            setattr(processes, name, original)


@contextmanager
def _as_before() -> Iterator[None]:
    """Put back what a script changes of its process: arguments, path, `__main__`, folder,
    environment."""
    argv, path, main = sys.argv, list(sys.path), sys.modules.get("__main__")
    folder, environment = os.getcwd(), dict(os.environ)
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path
        if main is not None:
            sys.modules["__main__"] = main
        os.chdir(folder)
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        os.environ.update(environment)


def _with_output(error: WorkloadError, said: str) -> WorkloadError:
    """The same error with the last that the script said: usage, or what it found missing."""
    lines = [line for line in said.strip().splitlines() if line.strip()][-_LAST_LINES:]
    if "SystemExit" not in error.what or not lines:
        return error
    why = joined((error.why, Text("It said:"), *lines), " ")
    return type(error)(
        error.what, why, Text("Give its own arguments after --: script.py -- --epochs 1")
    )


def _too_short(script: Script, steps: _Steps) -> WorkloadError:
    """It ended before the step could be recorded."""
    whole = Text("Let it run more steps, by its own arguments. Or take all of it: --step whole")
    if steps.counted:
        return _error(script, steps)(
            Text(
                "{target} ended after {counted} of {boundaries} steps that are needed.",
                target=script.target,
                counted=steps.counted,
                boundaries=steps.number,
            ),
            Text("The first ones make what only first steps make; the one after is recorded."),
            whole,
        )
    if steps.trains:
        why = Text("It makes an optimizer that never steps.")
    elif steps.passed:
        why = Text(
            "Its model was called too few times without gradients, and no optimizer stepped."
        )
    else:
        why = Text("No optimizer stepped, and no module was called without gradients.")
    return _error(script, steps)(
        Text("No step was found in {target}.", target=script.target), why, whole
    )


def _error(script: Script, steps: _Steps) -> type[WorkloadError]:
    """Where no kind of step was asked for, all of the script can be the step."""
    asked = script.step.isdecimal() and steps.counted > 0
    return WorkloadError if asked or script.step in ("optimizer", "forward") else NoStepError
