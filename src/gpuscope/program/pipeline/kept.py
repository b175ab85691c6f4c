"""Memory that one pass of a stage makes, the next frees, and the last leaves until the step's end.

FSDP gathers a block's parameters in a backward pass and keeps them until the next forward pass is
through, since gradients are not reduced in between; after the last backward pass they wait for the
reduction. A capture of two microbatches shows the first microbatch's copy freed by the second's
forward pass, and the second's copy kept until the end. For many microbatches they are one piece of
memory, which is there from the first backward pass to the reduction, not one for each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from gpuscope.program.types import Op, Program, Storage, TensorSpec

__all__ = ["block_of", "merge_kept"]

Spans = Mapping[tuple[str, int], tuple[int, int]]
"""Operators [first, end) by kind of block and microbatch: 0, 1, or -1 for the whole step's."""


def merge_kept(program: Program, spans: Spans) -> Program:
    """Make the two microbatches' copies of such memory one.

    Args:
        program: a stage, captured over two microbatches.
        spans: its blocks.

    Returns:
        The program with fewer storages; the first copy lives as long as the second did.
    """
    pairs = _pairs(program, spans)
    if not pairs:
        return program
    first_of = {later.id: first.id for first, later in pairs}
    died = {first.id: later.died for first, later in pairs}
    return replace(
        program,
        ops=tuple(_renamed(op, first_of) for op in program.ops),
        storages=tuple(
            replace(s, died=died[s.id]) if s.id in died else s
            for s in program.storages
            if s.id not in first_of
        ),
    )


def _pairs(program: Program, spans: Spans) -> list[tuple[Storage, Storage]]:
    """(the first microbatch's copy, the second's), alike in all but when they die."""
    first: defaultdict[object, list[Storage]] = defaultdict(list)
    later: defaultdict[object, list[Storage]] = defaultdict(list)
    for storage in program.storages:
        if storage.category != "communication" or storage.born < 0 or storage.died is None:
            continue
        born, dies = block_of(spans, storage.born), block_of(spans, storage.died - 1)
        if born is None or dies is None:
            continue
        key = (born[0], storage.label, storage.module, storage.nbytes)
        if born[1] == 0 and dies[1] == 1:
            first[key].append(storage)
        elif born[1] == 1 and dies[1] == -1:
            later[key].append(storage)
    return [pair for key in first for pair in zip(first[key], later[key], strict=False)]


def block_of(spans: Spans, index: int) -> tuple[str, int] | None:
    """The block that holds an operator (marks count to the block that they begin)."""
    for key, (first, end) in spans.items():
        if first - 1 <= index < end:
            return key
    return None


def _renamed(op: Op, first_of: Mapping[int, int]) -> Op:
    if not any(spec.storage in first_of for spec in (*op.inputs, *op.outputs)):
        return op

    def moved(spec: TensorSpec) -> TensorSpec:
        return replace(spec, storage=first_of.get(spec.storage, spec.storage))

    return replace(op, inputs=tuple(map(moved, op.inputs)), outputs=tuple(map(moved, op.outputs)))
