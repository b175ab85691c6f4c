"""Whether what was simulated, or only scored, is out, and by which number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from gpuscope.document.quantities import Bytes, Percent, Seconds
from gpuscope.document.text import Text
from gpuscope.hardware import Cluster
from gpuscope.planning.figures.registry import FIGURES, Measured, quick_of
from gpuscope.planning.limits import Most, broken, excess, timed
from gpuscope.planning.types import Rejected, Simulated

__all__ = ["against_limits", "beyond", "left", "out", "quick_value", "verdict"]


class Chosen(Protocol):
    """One way to run something."""

    @property
    def cluster(self) -> Cluster:
        """What it runs on."""

    @property
    def words(self) -> str:
        """As on a command line."""


class Asked(Protocol):
    """What decides whether a candidate is out."""

    @property
    def certainty(self) -> float:
        """Least probability to fit."""

    @property
    def limits(self) -> tuple[Most, ...]:
        """What the whole may come to at most."""

    @property
    def steps(self) -> float | None:
        """Of the whole; None: one."""


def out(candidate: Chosen, kind: str, reason: str) -> Rejected:
    """A candidate that is out."""
    return Rejected(f"{candidate.cluster.name}: {candidate.words}", kind, reason)


def verdict(question: Asked, candidate: Chosen, each: Simulated) -> Rejected | None:
    """Why a simulated candidate is out; None where it is not."""
    if each.fits < question.certainty:
        full = Text(
            "Its fullest rank takes {peak} of {usable}: {fits} likely to fit.",
            peak=Bytes(each.peak_bytes),
            usable=Bytes(each.usable_bytes),
            fits=Percent(each.fits),
        )
        return out(candidate, "memory", full)
    over = broken(question.limits, each, question.steps)
    return None if over is None else out(candidate, "limit", over)


def left(question: Asked, candidate: Chosen, step_s: float, peak_bytes: float) -> Rejected:
    """Why a candidate was not simulated, by its quick score."""
    usable = candidate.cluster.device.memory_usable_bytes
    if peak_bytes > usable:
        full = Text(
            "By the quick score its fullest rank takes {peak} of {usable}.",
            peak=Bytes(peak_bytes),
            usable=Bytes(usable),
        )
        return out(candidate, "memory", full)
    over = broken(timed(question.limits), quick_of(candidate.cluster, step_s), question.steps)
    if over is not None:
        return out(candidate, "limit", Text("By the quick score: {reason}", reason=over))
    others = Text(
        "Not simulated: the quick score, {estimate} a step, has others before it.",
        estimate=Seconds(step_s),
    )
    return out(candidate, "not_simulated", others)


def quick_value(goal: str, cluster: Cluster, step_s: float) -> float:
    """What the goal makes small, by the quick score; infinite where it is not known."""
    value = FIGURES.get(goal).of(quick_of(cluster, step_s), 1.0)
    return float("inf") if value is None else value


def beyond(question: Asked, cluster: Cluster, step_s: float) -> float:
    """How far a quick score is beyond the limits, see `gpuscope.planning.limits.excess`."""
    limits = timed(question.limits)
    return excess(limits, quick_of(cluster, step_s), question.steps) if limits else 0.0


def against_limits(
    scored: Iterable[tuple[Any, float, float]], exact: Mapping[Any, Simulated]
) -> list[tuple[str, Measured]]:
    """Each candidate that may fit, in words, and its step: simulated, or by the quick score.

    Args:
        scored: candidates (`Chosen`), each with its step's seconds and its peak's bytes.
        exact: by candidate, what was simulated.
    """
    told = list[tuple[str, Measured]]()
    for each, step_s, peak_bytes in scored:
        known = exact.get(each)
        usable = each.cluster.device.memory_usable_bytes
        if (known.peak_bytes if known else peak_bytes) <= usable:
            told.append((out(each, "", "").words, known or quick_of(each.cluster, step_s)))
    return told
