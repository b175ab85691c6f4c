"""Parameters gathered at the begin of a step instead of in each stage's first pass.

FSDP2 gathers what its optimizer changed block by block in the first forward pass, and that pass
waits. In a pipeline whose ranks hold several stages these waits add up: a stage's first pass cannot
begin before the stage before it has gathered, too. Megatron-LM's distributed optimizer has one
buffer for each stage and gathers all of them from the end of the optimizer's step on
(`start_param_sync` in megatron/core/distributed/param_and_grad_buffer.py), beside the passes with
`--overlap-param-gather`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuscope.program.pipeline.blocks import MARK
from gpuscope.program.types import Op, Program

__all__ = ["gathers_first", "reordered"]

_GATHER = "c10d::_allgather_base_"
"""FSDP2's gather of one unit's parameters; tensor parallel ranks gather by functional calls."""


def gathers_first(program: Program) -> Program:
    """The stage with the gathers of its first forward pass before that pass.

    Args:
        program: a stage of two microbatches with its marks (`stage_step`), whose parameters stay
            gathered within a step ("zero1"); one that gathers nothing is given back as it is.
    """
    span = _first_forward(program.ops)
    if span is None:
        return program
    mark, end = span
    moved = _gathering(program.ops, mark + 1, end)
    if not moved:
        return program
    freed = set(moved)
    order = [*range(mark), *moved, mark]
    order += [at for at in range(mark + 1, len(program.ops)) if at not in freed]
    ops = list(program.ops)
    for at in moved:
        kept = tuple(wait for wait in ops[at].waits if wait < 0 or wait in freed)
        ops[at] = replace(ops[at], waits=kept)
    return reordered(replace(program, ops=tuple(ops)), order)


def _first_forward(ops: Sequence[Op]) -> tuple[int, int] | None:
    """The mark of the first microbatch's forward pass, and the mark after it."""
    begin = None
    for op in ops:
        if op.name != MARK:
            continue
        if begin is not None:
            return begin, op.index
        if op.args["kind"] == "forward" and op.args["microbatch"] == 0:
            begin = op.index
    return None


def _gathering(ops: Sequence[Op], first: int, end: int) -> list[int]:
    """What is on the streams of the gathers, and of the copies into their buffers."""
    streams: set[int] = set()
    for op in ops[first:end]:
        if op.name == _GATHER:
            streams.add(op.stream)
            streams.update(ops[wait].stream for wait in op.waits if first <= wait < op.index)
    streams.discard(0)
    return [op.index for op in ops[first:end] if op.stream in streams]


def reordered(program: Program, order: Sequence[int]) -> Program:
    """The same operators in another order; waits and lives of memory go along.

    Args:
        program: any.
        order: every operator's present position, in the order wanted.
    """
    count = len(program.ops)
    new = {old: at for at, old in enumerate(order)}
    ops = []
    for at, old in enumerate(order):
        op = program.ops[old]
        waits = tuple(
            sorted(
                new[w] if w >= 0 else new[count + w] - count if count + w >= 0 else w
                for w in op.waits
            )
        )
        ops.append(replace(op, index=at, waits=waits))
    last, after = 0, [0]
    for old in range(count):
        last = max(last, new[old] + 1)
        after.append(last)
    storages = tuple(
        replace(
            s,
            born=new[s.born] if s.born >= 0 else s.born,
            died=None if s.died is None else after[s.died],
        )
        for s in program.storages
    )
    return replace(program, ops=tuple(ops), storages=storages)
