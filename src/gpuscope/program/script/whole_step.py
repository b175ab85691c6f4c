"""A script that is its own step: what is taken of it, and what is said of that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.document.text import Text
from gpuscope.errors import WorkloadError
from gpuscope.program.script.whole import Loop, device_work, longest_loop, part
from gpuscope.program.types import DTYPE_BYTES, Printed, Program

if TYPE_CHECKING:
    from gpuscope.program.capture.phases import Phases
    from gpuscope.program.script import Script

__all__ = ["PASS", "take_whole", "takes_whole"]

PASS = "pass "
"""`Script.step` where one pass of a loop is to be taken of the whole: "pass 2"."""

_PRINTED_LINES = 60
"""As much of what a whole script printed is kept."""


def takes_whole(script: Script) -> bool:
    """Whether the script runs from begin to end, all of it recorded."""
    return script.step == "whole" or script.step.startswith(PASS)


def take_whole(script: Script, phases: Phases, said: str) -> None:
    """Cut what was recorded from begin to end; into `phases.program`.

    Args:
        script: what ran.
        phases: of its capture, over.
        said: what it printed.

    Raises:
        WorkloadError: it did no work, or has no such pass.
    """
    program = phases.program
    assert program is not None
    if not program.ops:
        raise WorkloadError(
            Text("{target} did no PyTorch work.", target=script.target),
            "",
            Text("Give a script that runs a model, or computes with tensors."),
        )
    bounds = device_work(program.ops) or (0, len(program.ops))
    loop = longest_loop(program.ops[slice(*bounds)])
    if loop is not None:
        loop = replace(loop, first=loop.first + bounds[0])
    notes: list[Text] = []
    if script.step.startswith(PASS):
        number = int(script.step.removeprefix(PASS))
        loop = _with_pass(script, loop, number)
        bounds = loop.bounds(number)
        notes.append(_pass_words(loop, number))
    else:
        lines = [op.line for op in program.ops[slice(*bounds)] if op.line]
        notes.append(_whole_words(lines))
        if loop is not None:
            notes.append(_loop_words(loop))
    step = part(program, *bounds)
    phases.program = replace(
        step,
        dtype=_narrowest(step),
        assumptions=(*notes, *program.assumptions),
        printed=_printed(script, said),
    )


def _printed(script: Script, said: str) -> Printed | None:
    if script.prices is None or script.step.startswith(PASS):
        return None
    drawn = (line.rpartition("\r")[2].rstrip() for line in said.split("\n"))
    lines = ["".join(c for c in line if c.isprintable() or c == "\t") for line in drawn]
    if not any(lines):
        return None
    return Printed("\n".join(lines[-_PRINTED_LINES:]), script.prices.device_name)


def _narrowest(program: Program) -> str:
    """The fastest of the dtypes that matrix products are done in: a script may compare several."""
    from gpuscope.program.capture import is_matrix

    dtypes = {op.outputs[0].dtype for op in program.ops if op.outputs and is_matrix(op.name)}
    return min(dtypes, key=lambda d: (DTYPE_BYTES.get(d, 4), d), default=program.dtype)


def _with_pass(script: Script, loop: Loop | None, number: int) -> Loop:
    if loop is not None and number <= loop.passes:
        return loop
    if loop is None:
        what = Text("{target} has no loop that repeats the same device work.", target=script.target)
    else:
        what = Text(
            "The loop at {line} has {passes} passes, no {number}.",
            line=loop.line,
            passes=loop.passes,
            number=number,
        )
    raise WorkloadError(what, "", Text("Take all of it: --step whole"))


def _whole_words(lines: list[str]) -> Text:
    first, last = (lines[0], lines[-1]) if lines else ("", "")
    return Text(
        "The whole script is taken as the step, from its first device work ({first}) to its last "
        "({last}). Another: --step optimizer, --step forward, --step N.",
        first=first,
        last=last,
    )


def _loop_words(loop: Loop) -> Text:
    return Text(
        "A loop repeats the same device work {passes} times ({line}): --step {number} takes one "
        "pass of it.",
        passes=loop.passes,
        line=loop.line,
        number=min(3, loop.passes),
    )


def _pass_words(loop: Loop, number: int) -> Text:
    return Text(
        "Pass {number} of {passes} of a loop is taken as the step ({line}). All: --step whole.",
        number=number,
        passes=loop.passes,
        line=loop.line,
    )
