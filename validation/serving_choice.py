"""What `plan --task serve` would have chosen among serving points that others measured.

    python validation/serving_choice.py POINTS.csv [--write]

A question is a model, a system, a precision, two lengths and a limit of TPOT (10, 20, 30, 50 ms).
The candidates are the measured rows of the cells with role `judge`; which of them keep the limit is
not known to the rule. Each is simulated as its harness asked, as `plan` does last. Errors of
TPOT are log-normal and the same for all candidates of a question, which are one model on one system:
the rule takes the candidate that on the mean over such errors has the largest share of the best
candidate's predicted tokens a second and device, nothing where it breaks the limit. Regret is what
is lost in measured tokens a second and device against the best that keeps the limit; a limit broken
by more than 10 % counts 100 %.

Rules beside it: the product of the probability to keep the limit and of predicted tokens, by the
quick score (`plan`'s first stage) and by the simulator; the most requests in flight a device of those whose nearest row among the cells
with role `fit` keeps the limit; knowing which candidates keep it, the most requests in flight a
device, and the fewest devices; and chance.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import serving as points
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import parse_target
from gpuscope.planning.serving.steady import (
    ERROR,
    SIMULATED_ERROR,
    at_concurrency,
    probability_below,
)
from gpuscope.serving.engine import Engine
from gpuscope.serving.simulate import Deployment, deploy

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "validation" / "results" / "serving_choice.json"
LIMITS_S = (0.010, 0.020, 0.030, 0.050)
BROKEN = 1.1
"""A TPOT of so many times the limit breaks it."""


@dataclass(frozen=True)
class Point:
    """A measured candidate; what is predicted is None where it is not answered."""

    group: tuple[str, ...]
    devices: int
    concurrency: int
    tpot_s: float
    rate: float
    predicted_s: float | None
    predicted_rate: float | None
    quick_s: float | None = None
    quick_rate: float | None = None
    nearest_s: float | None = None


def candidate(row: dict[str, str]) -> Point:
    """One row, measured and predicted; rates are output tokens a second and device."""
    parts = points.split(row)
    devices = parts.tp
    places, isl, osl = int(row["concurrency"]), int(row["isl"]), int(row["osl"])
    ttft_s, tpot_s = float(row["silicon_ttft_ms"]) / 1e3, float(row["silicon_tpot_ms"]) / 1e3
    rate = _rate(places, osl, ttft_s, tpot_s) / devices
    name = row["model_path"].rpartition("/")[2].lower()
    precision = points.precision(row)
    group = (name, row["system"], precision, str(isl), str(osl))
    told = points.answer(row)
    try:
        started, cache_bytes = points.engine_of(row)
        found = deployed(name, row["system"], started, precision, parts, cache_bytes)
        steady = at_concurrency(found, round(0.9 * isl), round(0.9 * osl), places)
    except (GpuscopeError, LookupError):
        return Point(group, devices, places, tpot_s, rate, None, None)
    if told.predicted_ttft_s is None or told.predicted_tpot_s is None:
        return Point(group, devices, places, tpot_s, rate, None, None)
    simulated = _rate(places, osl, told.predicted_ttft_s, told.predicted_tpot_s) / devices
    return Point(
        group, devices, places, tpot_s, rate, told.predicted_tpot_s, simulated,
        steady.tpot_s, steady.tokens_per_s / devices,
    )  # fmt: skip


def _rate(places: int, answer: int, ttft_s: float, tpot_s: float) -> float:
    """Answer tokens a second of so many requests in flight."""
    return places * answer / (ttft_s + tpot_s * (answer - 1))


def deployed(
    name: str, system: str, started: Engine, precision: str, parts: points.Split, cache_bytes: float
) -> Deployment:
    """A priced deployment."""
    if parts.attention_dp > 1:
        raise LookupError("attention in data parallel, which is not modelled")
    size = points.model_size(name)
    cluster = parse_target(f"{parts.tp}x{points._SYSTEMS[system]}")
    long = replace(size, context=max(size.context, 1 << 18))
    return deploy(
        name, long, cluster, started, dtype=precision, tp=parts.tp, ep=parts.ep,
        cache_bytes=cache_bytes,
    )  # fmt: skip


def with_nearest(rows: Sequence[dict[str, str]], known: Sequence[dict[str, str]]) -> list[float]:
    """TPOT of the nearest row of other cells: sizes by their logarithm, words by a penalty."""

    def place(row: dict[str, str]) -> tuple[Any, ...]:
        try:
            active = points.model_size(
                row["model_path"].rpartition("/")[2].lower()
            ).active_parameters
        except (GpuscopeError, LookupError):
            active = 30_000_000_000
        numbers = (points.split(row).tp, int(row["concurrency"]), int(row["isl"]), int(row["osl"]))
        return (
            [log2(active), *map(log2, numbers)],
            (row["system"], row["precision"], row["backend"]),
        )

    told = [(*place(row), float(row["silicon_tpot_ms"]) / 1e3) for row in known]
    out = []
    for row in rows:
        numbers, words = place(row)
        out.append(
            min(
                (
                    sum(abs(a - b) for a, b in zip(numbers, theirs, strict=True))
                    + sum(a != b for a, b in zip(words, said, strict=True)),
                    tpot_s,
                )
                for theirs, said, tpot_s in told
            )[1]
        )
    return out


Rule = Callable[[Sequence[Point], float], Point | None]


def ours(some: Sequence[Point], limit_s: float) -> Point | None:
    """The largest expected share of the best, the error being that of all candidates alike."""
    known = [p for p in some if p.predicted_s is not None]
    if not known:
        return None
    rates = np.array([p.predicted_rate for p in known])
    places = np.linspace(-3, 3, 61)
    tpot_s = np.outer([p.predicted_s for p in known], np.exp(SIMULATED_ERROR * places))
    best = np.where(tpot_s <= limit_s, rates[:, None], 0.0).max(axis=0)
    if not best.any():
        return min(known, key=lambda p: p.predicted_s or 0.0)
    share = np.minimum(1.0, rates[:, None] / np.where(best > 0, best, np.inf))
    kept = np.where(tpot_s <= limit_s * BROKEN, share, 0.0)
    return known[int((kept @ np.exp(-(places**2) / 2)).argmax())]


def product(quick: bool) -> Rule:
    """The largest product of the probability to keep the limit and of tokens."""

    def rule(some: Sequence[Point], limit_s: float) -> Point | None:
        known = [p for p in some if p.predicted_s is not None]

        def worth(p: Point) -> float:
            seconds, rate = (
                (p.quick_s, p.quick_rate) if quick else (p.predicted_s, p.predicted_rate)
            )
            assert seconds is not None
            assert rate is not None
            error = ERROR if quick else SIMULATED_ERROR
            return probability_below(seconds, limit_s * BROKEN, error) * rate

        return max(known, key=worth, default=None)

    return rule


def nearest(some: Sequence[Point], limit_s: float) -> Point | None:
    """Of those whose nearest known row keeps the limit the most in flight a device."""
    keep = [p for p in some if p.nearest_s is not None and p.nearest_s <= limit_s]
    if not keep:
        return min(some, key=lambda p: p.nearest_s or 0.0)
    return max(keep, key=lambda p: p.concurrency / p.devices)


@dataclass(frozen=True)
class Asked:
    """One question and what came of a rule's choice.

    Attributes:
        group: model, system, precision, lengths.
        outcome: "kept", "broken" (a limit by more than 10 %) or "silent" (no answer).
        regret: share of the best's tokens that is lost; 1 where it was not kept.
        off: predicted TPOT of the choice over the measured, less 1; None where nothing was chosen.
    """

    group: tuple[str, ...]
    outcome: str
    regret: float
    off: float | None


def outcomes(groups: Sequence[Sequence[Point]], rule: Rule) -> list[Asked]:
    """Every question that has two candidates and one that keeps the limit."""
    found = []
    for some in groups:
        for limit_s in LIMITS_S:
            feasible = [p for p in some if p.tpot_s <= limit_s]
            if not feasible or len(some) < 2:
                continue
            chosen = rule(some, limit_s)
            if chosen is None:
                found.append(Asked(some[0].group, "silent", 1.0, None))
                continue
            said_s = chosen.predicted_s
            off = None if said_s is None else said_s / chosen.tpot_s - 1
            broken = chosen.tpot_s > limit_s * BROKEN
            lost = max(0.0, 1 - chosen.rate / max(p.rate for p in feasible))
            how = ("broken", 1.0) if broken else ("kept", lost)
            found.append(Asked(chosen.group, *how, off))
    return found


def told(groups: Sequence[Sequence[Point]], rule: Rule) -> dict[str, float]:
    """A rule's figures."""
    found = outcomes(groups, rule)
    lost = [each.regret for each in found]
    return {
        "questions": len(found),
        "broken": sum(each.outcome == "broken" for each in found) / len(found),
        "silent": sum(each.outcome == "silent" for each in found) / len(found),
        "regret_mean": statistics.fmean(lost),
        "regret_median": statistics.median(lost),
    }


def where(groups: Sequence[Sequence[Point]], rule: Rule) -> list[dict[str, Any]]:
    """What was lost on which model and system, the most first: broken limits and how far off their
    TPOT was predicted, and the regret of questions whose limit was kept."""
    models: dict[tuple[str, ...], list[Asked]] = defaultdict(list)
    for each in outcomes(groups, rule):
        models[each.group[:3]].append(each)
    rows = []
    for (name, system, precision), found in models.items():
        broken = [each for each in found if each.outcome == "broken"]
        kept = [each.regret for each in found if each.outcome == "kept"]
        rows.append(
            {
                "model": name,
                "precision": precision,
                "system": system,
                "questions": len(found),
                "lost": sum(each.regret for each in found),
                "broken": len(broken),
                "broken_off": sorted(each.off for each in broken if each.off is not None),
                "kept_regret": sum(kept),
                "kept": len(kept),
            }
        )
    return sorted(rows, key=lambda row: -row["lost"])


def known(pick: Callable[[Sequence[Point]], Point]) -> Rule:
    """A rule that knows which candidates keep the limit."""
    return lambda some, limit_s: pick([p for p in some if p.tpot_s <= limit_s])


def chance(groups: Sequence[Sequence[Point]]) -> dict[str, float]:
    """The mean over all candidates, whether they keep the limit or not."""
    lost = []
    for some in groups:
        for limit_s in LIMITS_S:
            feasible = [p.rate for p in some if p.tpot_s <= limit_s]
            if feasible and len(some) > 1:
                best = max(feasible)
                each = [
                    1.0 if p.tpot_s > limit_s * BROKEN else max(0.0, 1 - p.rate / best)
                    for p in some
                ]
                lost.append(statistics.fmean(each))
    return {"questions": len(lost), "regret_mean": statistics.fmean(lost)}


def main() -> None:
    """Ask every question, print every rule's figures, keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("points", type=Path)
    parser.add_argument("--role", default="judge", choices=("judge", "fit"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    begun = time.monotonic()
    rows = points.read(options.points, options.role, 1)
    near = with_nearest(rows, points.read(options.points, "fit", 1))
    made = [replace(candidate(row), nearest_s=n) for row, n in zip(rows, near, strict=True)]
    groups: dict[tuple[str, ...], list[Point]] = defaultdict(list)
    for point in made:
        groups[point.group].append(point)
    asked = list(groups.values())
    whole = [some for some in asked if all(p.predicted_s is not None for p in some)]
    off = [abs(p.predicted_s / p.tpot_s - 1) for p in made if p.predicted_s is not None]
    found = {
        "rows": len(rows),
        "answered": len(off),
        "tpot_median_error": statistics.median(off),
        "groups": len(asked),
        "all": {"expected share": told(asked, ours), "nearest row": told(asked, nearest)},
        "answered in full": {
            "groups": len(whole),
            "expected share": told(whole, ours),
            "expected tokens": told(whole, product(quick=False)),
            "expected tokens, quick score": told(whole, product(quick=True)),
            "nearest row": told(whole, nearest),
            "most in flight, feasible known": told(
                whole, known(lambda some: max(some, key=lambda p: p.concurrency / p.devices))
            ),
            "fewest devices, feasible known": told(
                whole, known(lambda some: min(some, key=lambda p: (p.devices, -p.concurrency)))
            ),
            "predicted tokens, feasible known": told(
                whole, known(lambda some: max(some, key=lambda p: p.predicted_rate or 0.0))
            ),
            "chance": chance(whole),
            "where": where(whole, ours),
        },
    }
    print(f"{time.monotonic() - begun:.0f} s", file=sys.stderr)
    print(json.dumps(found, indent=1))
    if options.write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
