"""A whole script as one step: from its first to its last device work; and loops found in that.

Pure data: what was recorded from a script's begin to its end (or until it was stopped) is cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuscope.program.types import Op, Program, Storage

__all__ = ["Loop", "device_work", "longest_loop", "part"]

_PERIODS = 40
"""Lengths of a loop's pass that are tried: the most frequent distances between equal operators."""

LEAST_PASSES = 3


@dataclass(frozen=True, slots=True)
class Loop:
    """The same operators again and again.

    Attributes:
        first: index of the first operator.
        period: operators of a pass.
        passes: whole passes.
        line: "train.py:12" of the first device work of a pass.
    """

    first: int
    period: int
    passes: int
    line: str

    def bounds(self, number: int) -> tuple[int, int]:
        """First operator of a pass (from 1 on), and the one after its last."""
        begin = self.first + (number - 1) * self.period
        return begin, begin + self.period


def device_work(ops: Sequence[Op]) -> tuple[int, int] | None:
    """The first operator on the device, and the one after the last; None without any."""
    at = [op.index for op in ops if _on_device(op)]
    return (at[0], at[-1] + 1) if at else None


def _on_device(op: Op) -> bool:
    return any(spec.device == "device" for spec in (*op.inputs, *op.outputs))


def part(program: Program, begin: int, end: int) -> Program:
    """The operators from `begin` to before `end` as a program of their own.

    What Python ran before the first of them is not its; memory that was there before stays.
    """
    ops = []
    for op in program.ops[begin:end]:
        waits = tuple(w - begin for w in op.waits if w >= begin)
        ops.append(replace(op, index=op.index - begin, waits=waits))
    if ops:
        ops[0] = replace(ops[0], python_calls=0, python_instructions=0, module_calls=0)
    kept = (_moved(s, begin, end) for s in program.storages)
    return replace(program, ops=tuple(ops), storages=tuple(s for s in kept if s is not None))


def _moved(storage: Storage, begin: int, end: int) -> Storage | None:
    died = storage.died
    if storage.born >= end or (died is not None and died <= begin):
        return None
    return replace(
        storage,
        born=storage.born - begin if storage.born >= begin else -1,
        died=died - begin if died is not None and died < end else None,
    )


def longest_loop(ops: Sequence[Op]) -> Loop | None:
    """The loop that covers most operators; of equals the shortest pass. None: no three passes."""
    numbers: dict[object, int] = {}
    keys = np.array([numbers.setdefault(_kind(op), len(numbers)) for op in ops], np.int64)
    best: tuple[int, int, int] | None = None  # covered, -period, first
    for period in _periods(keys):
        first, equal = _longest_run(keys[:-period] == keys[period:])
        covered = equal + period
        if covered < LEAST_PASSES * period:
            continue
        found = (covered, -period, first)
        # A multiple of a pass covers hardly more: the shorter one is the loop.
        if best is None or covered > best[0] + period:
            best = found
    if best is None:
        return None
    covered, minus, first = best
    passed = range(first, first - minus)
    work = next((ops[at] for at in passed if _on_device(ops[at])), None)
    if work is None:
        return None
    return Loop(
        first, -minus, covered // -minus, next((ops[at].line for at in passed if ops[at].line), "")
    )


def _kind(op: Op) -> tuple[object, ...]:
    shapes = tuple((s.shape, s.dtype, s.device) for s in (*op.inputs, *op.outputs))
    return op.name, op.overload, op.line, op.sync, shapes


def _periods(keys: np.ndarray) -> list[int]:
    """Distances between an operator and the next equal one, frequent ones, shortest first."""
    order = np.argsort(keys, kind="stable")
    same = keys[order[1:]] == keys[order[:-1]]
    counted = Counter(np.diff(order)[same].tolist())
    return sorted(period for period, _ in counted.most_common(_PERIODS))


def _longest_run(flags: np.ndarray) -> tuple[int, int]:
    """Begin and length of the longest run of true ones."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    if not edges.size:
        return 0, 0
    begins, ends = edges[::2], edges[1::2]
    at = int(np.argmax(ends - begins))
    return int(begins[at]), int(ends[at] - begins[at])
