"""Python work outside of the layers that grows with their number. Knows no torch.

Loops over parameters (`zero_grad`, optimizers) and over layers (caches) call Python functions
between operators without an operator of their own. Two depths show how many calls a layer adds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpuscope.program.fold_layers import SECOND, NotFoldableError, Stack, Tags, find_passes
from gpuscope.program.types import Op, Program

__all__ = ["with_python_calls"]

KEPT = 32
"""Programs whose Python is remembered by a process."""

Work = tuple[str, str, int, int]
"""Of an operator: name, phase, Python calls and instructions before it."""

_fewer: OrderedDict[object, tuple[Work, ...]] = OrderedDict()
"""The work with one period less, by the work of the whole: the same code on other sizes of tensors
runs the same Python, so it need not be captured again to see how that grows."""


def with_python_calls(
    program: Program,
    shorter: Callable[[], Program],
    names: Mapping[int, str],
    stacks: Sequence[Stack],
) -> Program:
    """The shallow program with the Python calls that its operators have at full depth.

    Args:
        program: captured at `stack.depth` layers.
        shorter: captures it with one period less in every stack; called where no program with the
            same operators and the same Python before each was met yet.
        names: dotted names of storages in `program`.
        stacks: all with the same period and copies.

    Raises:
        NotFoldableError: a period less is not `program` without one period.
    """
    periods = {(stack.period, stack.copies) for stack in stacks}
    if len(periods) > 1:
        raise NotFoldableError("stacks of layers grow by different numbers")
    period, copies = stacks[0].period, stacks[0].copies
    fewer = _known((period, _work(program)), shorter)
    left_out = _second_segments(program, names, stacks)
    kept = [op for op in program.ops if op.index not in left_out]
    if [(op.name, op.phase) for op in kept] != [(name, phase) for name, phase, *_ in fewer]:
        raise NotFoldableError("a period less changes more than the layers' operators")
    work = {
        op.index: (
            max(0, op.python_calls + copies * (op.python_calls - calls)),
            max(0, op.python_instructions + copies * (op.python_instructions - instructions)),
        )
        for op, (_, _, calls, instructions) in zip(kept, fewer, strict=True)
    }
    return replace(program, ops=tuple(_with_work(op, work) for op in program.ops))


def _work(program: Program) -> tuple[Work, ...]:
    return tuple((op.name, op.phase, op.python_calls, op.python_instructions) for op in program.ops)


def _known(key: object, shorter: Callable[[], Program]) -> tuple[Work, ...]:
    """What is remembered, the one used longest ago forgotten."""
    if key not in _fewer:
        _fewer[key] = _work(shorter())
    _fewer.move_to_end(key)
    while len(_fewer) > KEPT:
        _fewer.popitem(last=False)
    return _fewer[key]


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
