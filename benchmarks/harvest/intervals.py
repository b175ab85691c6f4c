"""How much wider intervals have to be for families of models that no constant has seen.

Split conformal, by kind of kernel. A call's *score* is how far its measurement lies from the
prediction, in half-widths of its 80 % interval on that side (1: on its edge). The calls of the seen
families give the factor that holds four of five of them,

    s = the ceil(0.8 (n + 1))-th smallest of n scores,

by which the kind's half-widths are multiplied where the share within was outside of `WANTED`. Two
judges: each seen family in turn by the factor of the others (leave one family out), and the families
of the other half, of which the factor saw nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

SHARE = 0.8
WANTED = (0.75, 0.90)
"""Shares within an 80 % interval that are taken as they are."""

FEWEST = 15
"""Calls of seen families that a kind needs for a factor."""


class Scored(NamedTuple):
    """A call.

    Attributes:
        kind: of the longest of its kernels.
        families: of models that make it.
        held_out: whether no seen family does.
        score: distance of the measurement in half-widths.
    """

    kind: str
    families: frozenset[str]
    held_out: bool
    score: float


def score(measured_s: float, predicted_s: float, low_s: float, high_s: float) -> float:
    """Half-widths between prediction and measurement; infinite where the interval has no width."""
    half = high_s - predicted_s if measured_s > predicted_s else predicted_s - low_s
    apart = abs(measured_s - predicted_s)
    return apart / half if half > 0 else math.inf if apart else 0.0


def factor(scores: Sequence[float]) -> float:
    """The half-width, in old ones, that holds `SHARE` of calls like these."""
    rank = math.ceil(SHARE * (len(scores) + 1))
    return sorted(scores)[min(rank, len(scores)) - 1]


def within(scores: Sequence[float], by: float = 1.0) -> float:
    """Share of the scores that intervals as wide `by` times hold."""
    return sum(s <= by for s in scores) / len(scores)


def one_family_out(seen: Sequence[Scored]) -> float:
    """Share of the calls within the interval that the other families' factor gives."""
    by_family: dict[str, list[Scored]] = defaultdict(list)
    for call in seen:
        for family in call.families:
            by_family[family].append(call)
    held = total = 0
    for family, calls in by_family.items():
        rest = [c.score for c in seen if family not in c.families]
        if rest:
            held += sum(c.score <= factor(rest) for c in calls)
            total += len(calls)
    return held / total if total else math.nan


def widths(calls: Sequence[Scored]) -> dict[str, dict[str, float]]:
    """By kind of kernel: the factor, and shares within before and after."""
    found = {}
    for kind in sorted({c.kind for c in calls}):
        seen = [c for c in calls if c.kind == kind and not c.held_out]
        held = [c.score for c in calls if c.kind == kind and c.held_out]
        if len(seen) < FEWEST or len(held) < FEWEST:
            continue
        scores = [c.score for c in seen]
        enough = WANTED[0] <= within(scores) <= WANTED[1]
        by = 1.0 if enough else factor(scores)
        found[kind] = {
            "factor": round(by, 3),
            "seen": len(seen),
            "held_out": len(held),
            "seen_within": round(within(scores), 3),
            "family_out_within": round(within(scores) if enough else one_family_out(seen), 3),
            "held_out_within": round(within(held), 3),
            "held_out_within_after": round(within(held, by), 3),
        }
    return found


def show(found: Mapping[str, Mapping[str, float]]) -> str:
    """A table for the terminal."""
    lines = [
        f"{'kernels':14s}{'factor':>7s}{'seen':>14s}{'one out':>9s}{'held out':>16s}{'after':>7s}"
    ]
    lines += [
        f"{kind:14s}{f['factor']:7.2f}{f['seen']:7.0f}{f['seen_within']:7.0%}"
        f"{f['family_out_within']:9.0%}{f['held_out']:9.0f}{f['held_out_within']:7.0%}"
        f"{f['held_out_within_after']:7.0%}"
        for kind, f in found.items()
    ]
    return "\n".join(lines)
