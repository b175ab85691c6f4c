"""Python work outside of the layers that grows with their number. Knows no torch.

Loops over parameters (`zero_grad`, optimizers) and over layers (caches) call Python functions
between operators without an operator of their own. Two depths show how many calls a layer adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpuscope.program.fold_layers import SECOND, NotFoldableError, Stack, Tags, find_passes
from gpuscope.program.types import Op, Program

__all__ = ["with_python_calls"]

KEPT = 100_000
"""Operators whose Python is remembered by a process."""

Gap = tuple[int, str, str, str, int, int]
"""Layers of a period; the operator before, an operator, its phase, and the Python between: calls
and instructions."""

_added: dict[Gap, tuple[int, int] | None] = {}
"""Python calls and instructions that a period adds before an operator; None: it differed. The same
code on other sizes of tensors, or beside other layers, runs the same Python, so it need not be
captured again to see how that grows."""


def with_python_calls(
    program: Program,
    shorter: Callable[[], Program],
    names: Mapping[int, str],
    stacks: Sequence[Stack],
) -> Program:
    """The shallow program with the Python calls that its operators have at full depth.

    Args:
        program: captured at `stack.depth` layers.
        shorter: captures it with one period less in every stack; called where, outside of the
            layers, an operator with other Python before it than any met yet is.
        names: dotted names of storages in `program`.
        stacks: all with the same period and copies.

    Raises:
        NotFoldableError: a period less is not `program` without one period.
    """
    periods = {(stack.period, stack.copies) for stack in stacks}
    if len(periods) > 1:
        raise NotFoldableError("stacks of layers grow by different numbers")
    period, copies = stacks[0].period, stacks[0].copies
    gaps = _gaps(program, period)
    outside = [op.index for op in program.ops if all(s.zone(op.module) is None for s in stacks)]
    if all(_added.get(gaps[at]) for at in outside):
        # Python of layers that are left does not know of one more.
        added = {at: _added[gaps[at]] or (0, 0) for at in outside}
    else:
        added = _measured(program, shorter(), _second_segments(program, names, stacks))
        for at, more in added.items():
            if _added.setdefault(gaps[at], more) != more:
                _added[gaps[at]] = None
        while len(_added) > KEPT:
            _added.pop(next(iter(_added)))
    work = {
        at: (
            max(0, program.ops[at].python_calls + copies * calls),
            max(0, program.ops[at].python_instructions + copies * instructions),
        )
        for at, (calls, instructions) in added.items()
    }
    return replace(program, ops=tuple(_with_work(op, work) for op in program.ops))


def _measured(program: Program, fewer: Program, left_out: set[int]) -> dict[int, tuple[int, int]]:
    """Calls and instructions that a period adds, by operator that both programs have.

    Raises:
        NotFoldableError: other operators differ.
    """
    kept = [op for op in program.ops if op.index not in left_out]
    if [(op.name, op.phase) for op in kept] != [(op.name, op.phase) for op in fewer.ops]:
        raise NotFoldableError("a period less changes more than the layers' operators")
    return {
        op.index: (
            op.python_calls - other.python_calls,
            op.python_instructions - other.python_instructions,
        )
        for op, other in zip(kept, fewer.ops, strict=True)
    }


def _gaps(program: Program, period: int) -> list[Gap]:
    before = ("", *(op.name for op in program.ops))
    return [
        (period, name, op.name, op.phase, op.python_calls, op.python_instructions)
        for name, op in zip(before, program.ops, strict=False)
    ]


def _second_segments(
    program: Program, names: Mapping[int, str], stacks: Sequence[Stack]
) -> set[int]:
    out: set[int] = set()
    for stack in stacks:
        for walk in find_passes(program.ops, Tags(program.ops, names, stack)):
            start = walk.segment_start(SECOND)
            out.update(range(start, start + walk.length))
    return out


def _with_work(op: Op, work: Mapping[int, tuple[int, int]]) -> Op:
    own = (op.python_calls, op.python_instructions)
    found = work.get(op.index, own)
    if found == own:
        return op
    return replace(op, python_calls=found[0], python_instructions=found[1])
