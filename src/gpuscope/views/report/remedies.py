"""What the page shows beside a finding: the lines that it names, and the step with a change made.

A changed step's timeline is as little as a picture of it needs: of one rank its lanes, and of each
event when, what, of which operator and module. Begins are differences to the one before, so that
they compress.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpuscope.cost.types import Kernel
from gpuscope.outcomes import simulated
from gpuscope.program.types import Op, Program
from gpuscope.run import Run
from gpuscope.run.remedy import Remedy
from gpuscope.run.timeline_document import kept_events
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Timeline

MAX_EVENTS = 12_000
"""Most events of one changed timeline; of more, the longest are kept."""

MOST = 8
"""Most changes of a run that are drawn: one more adds 20 to 60 kB to a page."""

AROUND = 2
"""Lines of source shown before and after one that is named."""


def remedies_document(run: Run, remedies: Sequence[Remedy] | None) -> list[dict[str, Any]]:
    """Return changes of a run as plain values; None: those its findings were simulated with."""
    shown = simulated(run) if remedies is None else remedies
    return [_remedy(each) for each in shown[:MOST]]


def _remedy(remedy: Remedy) -> dict[str, Any]:
    return {
        "findings": list(remedy.findings),
        "step_time_s": remedy.step_time_s,
        "change": remedy.change,
        "title": remedy.title,
        "speedup": remedy.speedup,
        "low": remedy.low,
        "high": remedy.high,
        "diff": remedy.diff,
        "numerics": remedy.numerics,
        "price": remedy.price,
        "timeline": thin_timeline(remedy.timeline),
    }


# -- lines of source ------------------------------------------------------------------------------


def source_lines(run: Run) -> dict[str, dict[str, Any]]:
    """Return the source around each line that a finding names ("train.py:12"), by that line.

    Each has `first`, the number of the first of its `lines`.

    Of runs that were predicted here alone: what a recording's lines were, its file may not tell.
    """
    basis = run.basis
    if basis is None:
        return {}
    captured = basis.captured
    programs = (captured,) if isinstance(captured, Program) else captured.programs
    files = {name: path for program in programs for name, path in program.files.items()}
    named = {
        line: None for each in run.analysis.findings if each.about for line in each.about.lines
    }
    linecache.checkcache()
    found = {line: _around(files, line) for line in named}
    return {line: text for line, text in found.items() if text is not None}


def _around(files: dict[str, str], line: str) -> dict[str, Any] | None:
    name, _, number = line.rpartition(":")
    whole, at = linecache.getlines(files[name]) if name in files else [], int(number)
    if at > len(whole):
        return None
    first = max(1, at - AROUND)
    return {"first": first, "lines": [text.rstrip() for text in whole[first - 1 : at + AROUND]]}


# -- timelines ------------------------------------------------------------------------------------


def thin_timeline(timeline: Timeline, max_events: int = MAX_EVENTS) -> dict[str, Any]:
    """Return one rank's lanes and events as columns of numbers and the tables that they index.

    Args:
        timeline: of a step; of several ranks the first with device work is taken.
        max_events: most events to keep.
    """
    events = timeline.events
    on_device = events.lane[events.kind < DEVICE_KINDS]
    ranks = sorted({timeline.lanes[lane].rank for lane in np.unique(on_device).tolist()})
    lanes = [at for at, lane in enumerate(timeline.lanes) if lane.rank in ranks[:1]]
    rows = np.flatnonzero(np.isin(events.lane, lanes) & (events.kind != EVENT_KINDS.index("step")))
    total = len(rows)
    rows = rows[kept_events(events.duration_ns[rows], max_events)]
    rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
    names, families, ops = _Numbers(), _Numbers(), _Numbers()
    place = {lane: at for at, lane in enumerate(lanes)}
    return {
        "lanes": [
            {"name": lane.name, "kind": lane.kind, "rank": lane.rank}
            for lane in (timeline.lanes[at] for at in lanes)
        ],
        "steps": [
            {"start_ns": step.start_ns, "end_ns": step.end_ns, "rank": step.rank}
            for step in timeline.steps
            if step.rank in ranks[:1]
        ],
        "kinds": list(EVENT_KINDS),
        "start_ns": np.diff(events.start_ns[rows], prepend=0).tolist(),
        "duration_ns": events.duration_ns[rows].tolist(),
        "lane": [place[lane] for lane in events.lane[rows].tolist()],
        "kind": events.kind[rows].tolist(),
        "name": names.of(timeline.names[name] for name in events.name[rows].tolist()),
        "family": families.of(_family(timeline, at) for at in events.kernel[rows].tolist()),
        "op": ops.of(_operator(timeline, at) for at in events.op[rows].tolist()),
        "correlation": events.correlation[rows].tolist(),
        "left_out": total - len(rows),
        "names": names.table,
        "families": families.table,
        "ops": ops.table,
    }


def _family(timeline: Timeline, at: int) -> str | None:
    kernel = timeline.kernels[at] if at >= 0 else None
    return kernel.kind if isinstance(kernel, Kernel) else None


def _operator(timeline: Timeline, at: int) -> tuple[str, str, str] | None:
    """Name, module and phase."""
    op = timeline.ops[at] if at >= 0 else None
    return (op.name, op.module, op.phase) if isinstance(op, Op) else None


class _Numbers:
    """Numbers for values, and the table that they index; None is -1."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}

    def of(self, values: Iterable[object]) -> list[int]:
        known = self._known
        return [-1 if v is None else known.setdefault(v, len(known)) for v in values]

    @property
    def table(self) -> list[object]:
        return list(self._known)
