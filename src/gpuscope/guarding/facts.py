"""The guarded figures of a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from gpuscope.analysis.compare import operator_shares
from gpuscope.analysis.types import Share

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
        account: seconds of the step by the terms of its account, without those of 0; {} where a
            baseline was written before it was kept.
    """

    step_time_s: float
    launches: int
    peak_memory_bytes: int
    graph_breaks: int
    communication_bytes: int
    findings: Mapping[str, float | None]
    memory: Mapping[str, int]
    operators: tuple[Share, ...]
    account: Mapping[str, float] = field(default_factory=dict)


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
        account={
            term.key: rounded(term.time_s)
            for term in (told.account.terms if told.account is not None else ())
            if term.time_s
        },
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
