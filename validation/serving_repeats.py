"""How well a server can be chosen at best, as its own measurements repeat.

    python validation/serving_repeats.py POINTS.csv [--write]

The questions are those of `serving_choice.py`, of candidates that were measured more than once: equal
devices, split, engine, version, requests in flight and lengths. Speculative decoding and engine flags
that a row does not state make such rows differ, so that no prediction can choose without regret. An
oracle knows every measurement but one repeat of each candidate: it takes the most tokens a second and
device of those that keep the limit by the mean of what it knows, and is judged by the repeat left
out, each in turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import serving as points
from serving_choice import BROKEN, LIMITS_S, _rate

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "validation" / "results" / "serving_repeats.json"
QUESTION = ("model_path", "system", "precision", "isl", "osl")
CANDIDATE = (
    "tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size", "backend",
    "backend_version", "concurrency",
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """One measurement: TPOT, and answer tokens a second and device."""

    tpot_s: float
    rate: float


def measured(row: Mapping[str, str]) -> Measured:
    """What a row says."""
    places, osl = int(row["concurrency"]), int(row["osl"])
    ttft_s, tpot_s = float(row["silicon_ttft_ms"]) / 1e3, float(row["silicon_tpot_ms"]) / 1e3
    return Measured(tpot_s, _rate(places, osl, ttft_s, tpot_s) / points.split(row).tp)


def asked(candidates: Sequence[Sequence[Measured]], left_out: int) -> list[tuple[bool, float]]:
    """(limit broken, regret) of each limit, with one repeat of each candidate left out.

    Args:
        candidates: each with two measurements or more.
        left_out: which repeat judges, modulo how many a candidate has.
    """
    judges = [some[left_out % len(some)] for some in candidates]
    known = [[m for i, m in enumerate(some) if i != left_out % len(some)] for some in candidates]
    found = []
    for limit_s in LIMITS_S:
        feasible = [m.rate for m in judges if m.tpot_s <= limit_s]
        keep = [
            (statistics.fmean(m.rate for m in some), judge)
            for some, judge in zip(known, judges, strict=True)
            if statistics.fmean(m.tpot_s for m in some) <= limit_s
        ]
        if not feasible or not keep:
            continue
        chosen = max(keep, key=lambda each: each[0])[1]
        broken = chosen.tpot_s > limit_s * BROKEN
        found.append((broken, 1.0 if broken else max(0.0, 1 - chosen.rate / max(feasible))))
    return found


def figures(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Of all questions with two candidates that were measured again."""
    groups: dict[tuple[str, ...], dict[tuple[str, ...], list[Measured]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        at = tuple(row[k] for k in QUESTION), tuple(row[k] for k in CANDIDATE)
        groups[at[0]][at[1]].append(measured(row))
    again = [[m for m in of.values() if len(m) > 1] for of in groups.values()]
    again = [some for some in again if len(some) > 1]
    found = [
        each for some in again for turn in range(max(map(len, some))) for each in asked(some, turn)
    ]
    spread = [
        max(m.tpot_s for m in of) / min(m.tpot_s for m in of) - 1 for some in again for of in some
    ]
    lost = [regret for _, regret in found]
    return {
        "groups": len(again),
        "candidates": len(spread),
        "questions": len(found),
        "tpot_spread_median": statistics.median(spread),
        "tpot_spread_worst": max(spread),
        "broken": sum(broken for broken, _ in found) / len(found),
        "regret_mean": statistics.fmean(lost),
        "regret_median": statistics.median(lost),
    }


def main() -> None:
    """Ask, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("points", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = {role: figures(points.read(options.points, role, 1)) for role in ("judge", "fit")}
    print(json.dumps(found, indent=1))
    if options.write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
