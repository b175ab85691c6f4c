"""One file to read, in this process or another: what goes in and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from gpuscope.analysis.cover import Cover
from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.timeline.ranks import ranks_of
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Events, Ints, Recorded, Timeline

_Row = TypeVar("_Row")

_KERNEL, _COMMUNICATION = EVENT_KINDS.index("kernel"), EVENT_KINDS.index("communication")


@dataclass(frozen=True, slots=True)
class Job:
    """A file to read.

    Attributes:
        path: the file, as the user named it.
        kind: "kineto", "nsys" or "engine".
        rank: which rank it is if the file does not say; None if the name does not say either.
        thin: keep device work and steps only.
        execution: what its operators were called with: PyTorch's execution trace of the same rank,
            or trtexec's information on an engine's layers; "" for none.
    """

    path: str
    kind: str
    rank: int | None = None
    thin: bool = False
    execution: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file gave.

    Attributes:
        timeline: whole, or thin as asked.
        span_ns: first to last event of device work.
        compute_ns: union of its kernels that are not communication.
        communication_ns: union of its communication kernels: least on the rank that comes last.
    """

    timeline: Timeline
    span_ns: int
    compute_ns: int
    communication_ns: int


def run_job(job: Job, *, alone: bool = False) -> Reading:
    """Read one file.

    Args:
        job: which, and how.
        alone: in this process only, as where others read files of their own meanwhile.

    Raises:
        InputFileError: as the readers do.
    """
    timeline = _read(job, alone)
    events = timeline.events
    work = events.kind < DEVICE_KINDS
    compute, communication = events.kind == _KERNEL, events.kind == _COMMUNICATION
    span = int(events.end_ns[work].max() - events.start_ns[work].min()) if work.any() else 0
    return Reading(
        timeline=thinned(timeline) if job.thin else timeline,
        span_ns=span,
        compute_ns=Cover.of(events.start_ns[compute], events.end_ns[compute]).total_ns,
        communication_ns=Cover.of(
            events.start_ns[communication], events.end_ns[communication]
        ).total_ns,
    )


def _read(job: Job, alone: bool) -> Timeline:
    if job.kind == "nsys":
        from gpuscope.timeline.nsys import read_nsys

        return read_nsys(job.path)
    if job.kind in ("engine", "layers"):
        from gpuscope.timeline.engine_reports import read_report

        return read_report(job.path, rank=job.rank, layers=job.execution)
    if job.kind != "kineto":
        raise InputFileError(
            Text("{path} is no trace.", path=job.path),
            Text("It looks like a {kind}.", kind=job.kind),
        )
    from gpuscope.timeline.kineto import read_trace

    workers = 0 if alone else None
    return read_trace(job.path, rank=job.rank, workers=workers, execution=job.execution)


def thinned(timeline: Timeline) -> Timeline:
    """Return a timeline's device work and steps, without its host: a fraction of the memory.

    Operators that device work refers to stay; references to host events are -1.
    """
    events = timeline.events
    keep = np.flatnonzero(events.kind < DEVICE_KINDS)
    names, name = _used(timeline.names, events.name[keep])
    ops, op = _used(timeline.ops, events.op[keep])
    kept = Events(
        start_ns=events.start_ns[keep],
        duration_ns=events.duration_ns[keep],
        name=name,
        kind=events.kind[keep],
        lane=events.lane[keep],
        op=op,
        kernel=events.kernel[keep],
        correlation=events.correlation[keep],
    )
    return replace(
        timeline,
        names=names,
        ops=ops,
        events=kept,
        recorded=None if timeline.recorded is None else _hostless(timeline.recorded),
    )


def _used(table: tuple[_Row, ...], column: Ints) -> tuple[tuple[_Row, ...], Ints]:
    """The rows of a table that a column refers to, and the column renumbered."""
    rows, at = np.unique(column, return_inverse=True)
    missing = int(len(rows) > 0 and rows[0] < 0)
    return tuple(table[row] for row in rows[missing:].tolist()), at.reshape(-1) - missing


def _hostless(recorded: Recorded) -> Recorded:
    nowhere = np.full(len(recorded), -1, np.int64)
    return replace(
        recorded, event=np.arange(len(recorded)), launch=nowhere, operator=nowhere.copy()
    )


def rank_of(reading: Reading) -> int:
    """The rank of a reading: its only one, or its first."""
    ranks = ranks_of(reading.timeline)
    return ranks[0] if ranks else 0
