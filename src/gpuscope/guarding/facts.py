"""The guarded figures of a run, and the source lines that its operators come from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpuscope.analysis.compare import operator_shares
from gpuscope.analysis.operator_families import operator_family
from gpuscope.analysis.types import Share
from gpuscope.timeline.types import DEVICE_KINDS

if TYPE_CHECKING:
    from gpuscope.run import Run

DIGITS = 5
"""Significant digits of times in the baseline: the last bits of sums differ between machines."""

LEAST_GAIN = 0.02
"""Share of the step that a finding must be worth to be guarded; one that names no gain is."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is guarded of one workload on one device.

    Attributes:
        step_time_s: predicted step.
        launches: launch calls of a step, of the first rank.
        peak_memory_bytes: most allocated at once; of a job, on its fullest rank.
        graph_breaks: how often compiled code goes back to Python in a step.
        communication_bytes: messages of a step, of the first rank.
        findings: kinds of findings, with their gain as a share of the step (None: unknown).
        memory: bytes at the peak by category.
        operators: the step by operator family and idle time.
    """

    step_time_s: float
    launches: int
    peak_memory_bytes: int
    graph_breaks: int
    communication_bytes: int
    findings: Mapping[str, float | None]
    memory: Mapping[str, int]
    operators: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a run's figures come from; only of a run at hand, not of the baseline.

    Attributes:
        lines: source lines by operator family, most time first.
        breaks: lines at which compiled code goes back to Python.
        holders: the largest holders of the memory at the peak.
        findings: by kind: its title, and its lines.
    """

    lines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    breaks: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    findings: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)


def facts_of(run: Run) -> Facts:
    """Return what is guarded of a run."""
    told, program = run.analysis, run.program
    sent = told.communication.sorts if told.communication is not None else ()
    return Facts(
        step_time_s=rounded(run.step_time_s),
        launches=told.launches.count if told.launches is not None else 0,
        peak_memory_bytes=run.peak_memory_bytes or 0,
        graph_breaks=sum(each.count for each in program.graph_breaks) if program else 0,
        communication_bytes=sum(each.count * (each.message_bytes or 0) for each in sent),
        findings=_kinds(run),
        memory=dict(told.memory.at_peak) if told.memory is not None else {},
        operators=tuple(
            Share(
                share.label,
                rounded(share.time_s),
                share.count,
                rounded(share.flops),
                rounded(share.moved_bytes),
            )
            for share in operator_shares(told)
        ),
    )


def _kinds(run: Run) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for each in run.analysis.findings:
        gain = each.max_gain_s
        share = None if gain is None or run.step_time_s <= 0 else round(gain / run.step_time_s, 3)
        found.setdefault(each.kind, share)
    return found


def rounded(value: float) -> float:
    """Return a number with `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS}g}")


def sources_of(run: Run, workload: str = "") -> Sources:
    """Return where the guarded figures of a run come from.

    Args:
        run: predicted now.
        workload: as it was named; lines of its file get the file's whole name, which annotations
            need.
    """
    file = workload.partition(":")[0]

    def full(line: str) -> str:
        name, _, number = line.rpartition(":")
        return f"{file}:{number}" if name and name == Path(file).name else line

    memory, program = run.analysis.memory, run.program
    return Sources(
        lines={name: tuple(map(full, lines)) for name, lines in _lines(run).items()},
        breaks=tuple(full(each.site) for each in program.graph_breaks if each.site)
        if program
        else (),
        holders=tuple(label for label, _ in memory.holders[:3]) if memory else (),
        findings={
            each.kind: (each.title, tuple(map(full, each.about.lines if each.about else ())))
            for each in reversed(run.analysis.findings)
        },
    )


def _lines(run: Run) -> dict[str, tuple[str, ...]]:
    """Lines by operator family, most device time first.

    The backward pass has no lines: the lines of its module's forward pass stand for it.
    """
    timeline = run.timeline
    events = timeline.events
    rows = np.flatnonzero((events.kind < DEVICE_KINDS) & (events.op >= 0))
    spent = np.bincount(
        events.op[rows], weights=events.duration_ns[rows], minlength=len(timeline.ops)
    )
    of_module: dict[str, str] = {}
    for op in timeline.ops:
        line = getattr(op, "line", "")
        if line and getattr(op, "phase", "") == "forward":
            of_module.setdefault(getattr(op, "module", ""), line)
    found: dict[str, dict[str, float]] = {}
    for number in np.flatnonzero(spent > 0).tolist():
        op = timeline.ops[number]
        name = getattr(op, "name", "")
        line = getattr(op, "line", "") or getattr(op, "site", "")
        line = line or of_module.get(getattr(op, "module", ""), "")
        if line:
            own = found.setdefault(operator_family(name), {})
            own[line] = own.get(line, 0.0) + float(spent[number])
    return {
        name: tuple(sorted(own, key=lambda line: (-own[line], line))) for name, own in found.items()
    }


def versions() -> dict[str, str]:
    """Return the versions of what a prediction is made with."""
    from gpuscope import __version__

    found = {
        "gpuscope": __version__,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    for package in ("torch", "transformers"):
        try:
            found[package] = version(package).partition("+")[0]
        except PackageNotFoundError:
            continue
    return found
