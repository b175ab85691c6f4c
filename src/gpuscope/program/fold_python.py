"""Python work outside of the layers that grows with their number. Knows no torch.

Loops over parameters (`zero_grad`, optimizers) and over layers (caches) call Python functions
between operators without an operator of their own. Two depths show how many calls a layer adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuscope.program.fold_layers import SECOND, NotFoldableError, Stack, Tags, find_passes
from gpuscope.program.types import Op, Program

__all__ = ["with_python_calls"]


def with_python_calls(
    program: Program, fewer: Program, names: Mapping[int, str], stacks: Sequence[Stack]
) -> Program:
    """The shallow program with the Python calls that its operators have at full depth.

    Args:
        program: captured at `stack.depth` layers.
        fewer: captured with one period less in every stack.
        names: dotted names of storages in `program`.
        stacks: all with the same period and copies.

    Raises:
        NotFoldableError: `fewer` is not `program` without one period.
    """
    periods = {(stack.period, stack.copies) for stack in stacks}
    if len(periods) > 1:
        raise NotFoldableError("stacks of layers grow by different numbers")
    copies = stacks[0].copies
    left_out = _second_segments(program, names, stacks)
    kept = [op for op in program.ops if op.index not in left_out]
    if [(op.name, op.phase) for op in kept] != [(op.name, op.phase) for op in fewer.ops]:
        raise NotFoldableError("a period less changes more than the layers' operators")
    work = {
        op.index: (
            max(0, op.python_calls + copies * (op.python_calls - less.python_calls)),
            max(
                0,
                op.python_instructions
                + copies * (op.python_instructions - less.python_instructions),
            ),
        )
        for op, less in zip(kept, fewer.ops, strict=True)
    }
    return replace(program, ops=tuple(_with_work(op, work) for op in program.ops))


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
