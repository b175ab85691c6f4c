"""Whether one rank systematically holds up the others, and whether its kernels are slower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.collective_match import Match
from gpuscope.analysis.lateness import BEGAN, RankWork
from gpuscope.analysis.recorded_types import LATE_REASONS, Straggler
from gpuscope.analysis.window import KERNEL
from gpuscope.program.types import Op
from gpuscope.timeline.types import Ints, Timeline

Floats = npt.NDArray[np.float64]

NS = 1e-9

LEAST_SHARE = 0.4
"""Share of all waiting that one rank must cause, and 1.5 times its fair share."""

SLOWER = 1.1
"""Equal kernels this much longer than on the other ranks make a slow device. Kernels of equal
devices differ by a few per cent."""

MORE = 1.05
"""Kernel time this much above the others' median is more work; equal ranks differ by less."""

STEP_SHARE = 0.05
"""In a step that a rank holds up the others wait for it, in the mean, at least this share."""

LEAST_COLLECTIVES = 4
"""Where no steps are marked, fewer collectives to which a rank came last may be chance."""

LEAST_COMMON = 0.5
"""Share of a rank's kernel time that must be in kernels that others run too, to compare them."""


@dataclass(frozen=True, slots=True)
class KernelRatio:
    """One rank's kernels against those of the others.

    Attributes:
        equal: mean duration of equal kernels (symbol, grid, operator and shapes) over that on the
            other ranks, weighted by time; None where there are too few to compare.
        work: its kernel time over the others' median; None without kernels.
    """

    equal: float | None
    work: float | None

    @property
    def is_more(self) -> bool:
        """Whether its kernels take longer in all."""
        return self.work is not None and self.work >= MORE

    @property
    def is_slower(self) -> bool:
        """Whether its device, not its work, makes its kernels longer."""
        return self.equal is not None and self.equal >= SLOWER


def find_straggler(
    match: Match,
    exposed: Ints,
    last: Ints,
    reason: Ints,
    ratios: Mapping[int, KernelRatio],
    steps: int,
    marked: bool = True,
) -> Straggler | None:
    """Return the rank that causes most of the waiting, step after step; None if none does.

    Waiting for a rank whose recording began late is the recorder's, and counts for nobody.

    Args:
        match: the collectives.
        exposed: waiting of each call that no computation hides, in nanoseconds.
        last: for each collective the row of the rank that came last.
        reason: for each collective why.
        ratios: kernels of each rank against the others.
        steps: steps recorded.
        marked: the steps are marked; else `steps` is 1 and says nothing.
    """
    calls = match.calls
    rows = np.flatnonzero(match.id >= 0)
    total = np.bincount(match.id[rows], weights=exposed[rows], minlength=match.count)
    total = np.where(reason == BEGAN, 0.0, total)
    blamed = calls.rank[last]
    caused = np.bincount(blamed, weights=total, minlength=len(calls.ranks))
    everything = float(caused.sum())
    if everything <= 0:
        return None
    code = int(caused.argmax())
    share = float(caused[code]) / everything
    own = blamed == code
    if share < max(LEAST_SHARE, min(0.75, 1.5 / len(calls.ranks))):
        return None
    if not _systematic(match, np.where(own, total, 0.0), steps):
        return None
    why = np.bincount(reason[own], total[own]).argmax()
    rank = calls.ranks[code]
    counted = own & (reason != BEGAN)
    mine = rows[counted[match.id[rows]]]
    waits = np.bincount(calls.rank[mine], exposed[mine], len(calls.ranks)) * NS
    return Straggler(
        rank=rank,
        share=share,
        reason=LATE_REASONS[int(why)],
        waits_s=tuple(waits.tolist()),
        kernel_ratio=ratios[rank].equal,
        work_ratio=ratios[rank].work,
        seen=_seen(steps, marked, int((counted & (total > 0)).sum())),
    )


def _seen(
    steps: int, marked: bool, collectives: int
) -> Literal["steps", "one step", "few collectives"]:
    """In what a rank was seen to hold up the others."""
    if steps > 1 or (not marked and collectives >= LEAST_COLLECTIVES):
        return "steps"
    return "one step" if marked else "few collectives"


def _systematic(match: Match, caused: Floats, steps: int) -> bool:
    """Whether a rank holds up the others in more than half of the steps.

    Every step has the same collectives, so equal shares of them are the steps: hosts may run far
    ahead of their devices, so the host's marks do not tell which step a collective is of.
    """
    calls = match.calls
    span = float(calls.end_ns.max() - calls.start_ns.min()) / steps
    others = max(1, len(calls.ranks) - 1)
    parts = np.array_split(caused, steps)
    held = sum(float(part.sum()) / others >= STEP_SHARE * span for part in parts)
    return held * 2 > steps


def kernel_ratios(timeline: Timeline, works: Mapping[int, RankWork]) -> dict[int, KernelRatio]:
    """Compare each rank's kernels with those of the others."""
    rank, key, duration, known = _kernels(timeline, works)
    if len(key) == 0:
        return {number: KernelRatio(None, None) for number in works}
    numbers = list(works)
    cells = rank * (int(key.max()) + 1) + key
    size = len(numbers) * (int(key.max()) + 1)
    time = np.bincount(cells, weights=duration, minlength=size).reshape(len(numbers), -1)
    count = np.bincount(cells, minlength=size).reshape(len(numbers), -1)
    found = {}
    for i, number in enumerate(numbers):
        others_time, others_count = time.sum(axis=0) - time[i], count.sum(axis=0) - count[i]
        common = (count[i] > 0) & (others_count > 0) & known
        own = float(time[i].sum())
        rest = np.delete(time.sum(axis=1), i)
        middle = float(np.median(rest)) if len(rest) else 0.0
        equal = None
        if own > 0 and float(time[i][common].sum()) >= LEAST_COMMON * own:
            expected = others_time[common] / others_count[common] * count[i][common]
            equal = float(time[i][common].sum() / expected.sum()) if expected.sum() > 0 else None
        found[number] = KernelRatio(equal, own / middle if own > 0 and middle > 0 else None)
    return found


def _kernels(
    timeline: Timeline, works: Mapping[int, RankWork]
) -> tuple[Ints, Ints, Ints, npt.NDArray[np.bool_]]:
    """Compute kernels of all ranks: rank's place, key of equal kernels, duration in ns; and for
    each key whether its shapes are known (one symbol and grid may serve many sizes)."""
    ranks, rows, lengths = [], [], []
    for place, work in enumerate(works.values()):
        own = work.work.kind == KERNEL
        rows.append(work.work.event[own])
        lengths.append((work.work.end_ns - work.work.start_ns)[own])
        ranks.append(np.full(int(own.sum()), place, np.int64))
    row = np.concatenate(rows) if rows else np.zeros(0, np.int64)
    if len(row) == 0:
        return row, row, row, np.zeros(0, np.bool_)
    signature = _signatures(timeline)[timeline.events.op[row]]
    columns = (timeline.events.name[row], _blocks(timeline, row), signature)
    distinct, key = np.unique(np.stack(columns), axis=1, return_inverse=True)
    known = np.asarray(distinct[2] >= 0, np.bool_)
    return np.concatenate(ranks), key.reshape(-1), np.concatenate(lengths), known


def _blocks(timeline: Timeline, row: Ints) -> Ints:
    """Blocks of each device event's grid; -1 where not recorded."""
    recorded = timeline.recorded
    if recorded is None or len(recorded) == 0:
        return np.full(len(row), -1, np.int64)
    at = np.minimum(np.searchsorted(recorded.event, row), len(recorded) - 1)
    return np.where(recorded.event[at] == row, recorded.grid[at].prod(axis=1), -1)


def _signatures(timeline: Timeline) -> Ints:
    """A number for each operator's name and input shapes; -1 without shapes or operator."""
    table: dict[object, int] = {}
    codes = []
    for op in timeline.ops:
        if not isinstance(op, Op) or not any(spec.shape for spec in op.inputs):
            codes.append(-1)
            continue
        key = op.name, tuple((spec.shape, spec.dtype) for spec in op.inputs)
        codes.append(table.setdefault(key, len(table)))
    return np.array([*codes, -1], np.int64)
