"""A step with one micro-batch less, made of its recording instead of recorded anew.

A step of several micro-batches runs the same forward and backward pass for each, so that the second
of them can be left out. The first differs from the others (there is no gradient yet to add to), and
the last may (gradients are summed over ranks).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import replace

from gpuscope.program.types import Program

__all__ = ["without_second"]


def without_second(program: Program) -> Program | None:
    """The step without its second micro-batch; None where no second one is found.

    For what a step takes, not for what it holds: a tensor that lives into the micro-batch that is
    left out ends where that began.

    Args:
        program: of two micro-batches or more, without pipeline stages.
    """
    begins = _begins(program)
    if len(begins) < 2:
        return None
    end = begins[2] if len(begins) > 2 else _end(program, begins[1])
    gone = range(begins[1], end)
    kept = [op for op in program.ops if op.index not in gone]
    numbers = {op.index: number for number, op in enumerate(kept)}
    numbers |= {old: numbers[new] for old, new in _alike(program, gone, begins[0]).items()}
    count = len(program.ops)
    # What the step before did has a negative number, counted from that step's end.
    numbers |= {old - count: new - len(kept) for old, new in numbers.items()}
    ops = tuple(
        replace(op, index=new, waits=tuple(sorted({numbers[w] for w in op.waits if w in numbers})))
        for new, op in enumerate(kept)
    )
    left = [op.index for op in kept]

    def moved(index: int) -> int:
        """Of the first operator from there on that is left."""
        return index if index < 0 else bisect_left(left, index)

    storages = tuple(
        replace(s, born=moved(s.born), died=None if s.died is None else moved(s.died))
        for s in program.storages
        if s.born not in gone
    )
    return replace(program, ops=ops, storages=storages)


def _alike(program: Program, gone: range, begin: int) -> dict[int, int]:
    """What stands for operators that are left out, where others wait for them: the same one of the
    micro-batch before, counted from its end."""
    places: dict[tuple[str, int], list[int]] = defaultdict(list)
    for op in program.ops[begin : gone.start]:
        places[op.name, op.stream].append(op.index)
    seen: dict[tuple[str, int], int] = defaultdict(int)
    found: dict[int, int] = {}
    for op in reversed(program.ops[gone.start : gone.stop]):
        key = op.name, op.stream
        seen[key] += 1
        if seen[key] <= len(places[key]):
            found[op.index] = places[key][-seen[key]]
    return found


def _begins(program: Program) -> list[int]:
    """Where each micro-batch begins: with the first forward operator of all, or after a backward
    pass."""
    begins: list[int] = []
    back = True
    for op in program.ops:
        if op.phase == "forward" and back:
            begins.append(op.index)
            back = False
        elif op.phase == "backward":
            back = True
    return begins


def _end(program: Program, begin: int) -> int:
    """One past the last backward operator."""
    return 1 + max(op.index for op in program.ops[begin:] if op.phase == "backward")
