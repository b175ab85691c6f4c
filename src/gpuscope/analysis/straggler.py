"""Whether one rank systematically holds up the others, and whether its kernels are slower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpuscope.analysis.collective_match import Match
from gpuscope.analysis.lateness import RankWork
from gpuscope.analysis.recorded_types import LATE_REASONS, Straggler
from gpuscope.analysis.window import KERNEL
from gpuscope.program.types import Op
from gpuscope.timeline.types import Ints, Timeline

NS = 1e-9

LEAST_SHARE = 0.4
"""Share of all waiting that one rank must cause, and 1.5 times its fair share."""

SLOWER = 1.1
"""Equal kernels this much longer than on the other ranks make a slow device. Kernels of equal
devices differ by a few per cent."""

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
    def is_slower(self) -> bool:
        """Whether its device, not its work, makes its kernels longer."""
        return self.equal is not None and self.equal >= SLOWER


def find_straggler(
    match: Match, waiting: Ints, last: Ints, reason: Ints, ratios: Mapping[int, KernelRatio]
) -> Straggler | None:
    """Return the rank that causes most of the waiting; None if none stands out.

    Args:
        match: the collectives.
        waiting: waiting of each call in nanoseconds.
        last: for each collective the row of the rank that came last.
        reason: for each collective why.
        ratios: kernels of each rank against the others.
    """
    calls = match.calls
    rows = np.flatnonzero(match.id >= 0)
    total = np.bincount(match.id[rows], weights=waiting[rows], minlength=match.count)
    blamed = calls.rank[last]
    caused = np.bincount(blamed, weights=total, minlength=len(calls.ranks))
    everything = float(caused.sum())
    if everything <= 0:
        return None
    code = int(caused.argmax())
    share = float(caused[code]) / everything
    if share < max(LEAST_SHARE, min(0.75, 1.5 / len(calls.ranks))):
        return None
    own = blamed == code
    why = np.bincount(reason[own], weights=total[own], minlength=len(LATE_REASONS))
    mine = rows[own[match.id[rows]]]
    waits = np.bincount(calls.rank[mine], weights=waiting[mine], minlength=len(calls.ranks))
    rank = calls.ranks[code]
    return Straggler(
        rank=rank,
        share=share,
        reason=LATE_REASONS[int(why.argmax())],
        waits_s=tuple(float(w) * NS for w in waits),
        kernel_ratio=ratios[rank].equal,
        work_ratio=ratios[rank].work,
    )


def kernel_ratios(timeline: Timeline, works: Mapping[int, RankWork]) -> dict[int, KernelRatio]:
    """Compare each rank's kernels with those of the others."""
    rank, key, duration = _kernels(timeline, works)
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
        common = (count[i] > 0) & (others_count > 0)
        own = float(time[i].sum())
        rest = np.delete(time.sum(axis=1), i)
        middle = float(np.median(rest)) if len(rest) else 0.0
        equal = None
        if own > 0 and float(time[i][common].sum()) >= LEAST_COMMON * own:
            expected = others_time[common] / others_count[common] * count[i][common]
            equal = float(time[i][common].sum() / expected.sum()) if expected.sum() > 0 else None
        found[number] = KernelRatio(equal, own / middle if own > 0 and middle > 0 else None)
    return found


def _kernels(timeline: Timeline, works: Mapping[int, RankWork]) -> tuple[Ints, Ints, Ints]:
    """Compute kernels of all ranks: rank's place, key of equal kernels, duration in ns."""
    ranks, rows, lengths = [], [], []
    for place, work in enumerate(works.values()):
        own = work.work.kind == KERNEL
        rows.append(work.work.event[own])
        lengths.append((work.work.end_ns - work.work.start_ns)[own])
        ranks.append(np.full(int(own.sum()), place, np.int64))
    row = np.concatenate(rows) if rows else np.zeros(0, np.int64)
    if len(row) == 0:
        return row, row, row
    signature = _signatures(timeline)[timeline.events.op[row]]
    columns = (timeline.events.name[row], _blocks(timeline, row), signature)
    _, key = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return np.concatenate(ranks), key.reshape(-1), np.concatenate(lengths)


def _blocks(timeline: Timeline, row: Ints) -> Ints:
    """Blocks of each device event's grid; -1 where not recorded."""
    recorded = timeline.recorded
    if recorded is None or len(recorded) == 0:
        return np.full(len(row), -1, np.int64)
    at = np.minimum(np.searchsorted(recorded.event, row), len(recorded) - 1)
    return np.where(recorded.event[at] == row, recorded.grid[at].prod(axis=1), -1)


def _signatures(timeline: Timeline) -> Ints:
    """A number for each operator's name and input shapes; the last entry is for no operator."""
    table: dict[object, int] = {}
    codes = []
    for op in timeline.ops:
        key: object = None
        if isinstance(op, Op):
            key = op.name, tuple((spec.shape, spec.dtype) for spec in op.inputs)
        codes.append(table.setdefault(key, len(table)))
    return np.array([*codes, -1], np.int64)
