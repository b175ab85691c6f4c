"""Questions and simulated candidates made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuscope.hardware import parse_target
from gpuscope.planning.question import question_of
from gpuscope.planning.types import Candidate, Judged, Question
from gpuscope.program.models.parallel.options import Parallelism


def asked(**given: Any) -> Question:
    usual: dict[str, Any] = {
        "on": "h200",
        "devices": "8",
        "global_batch": 64,
        "seq": 4096,
        "goal": "time",
        "tokens": None,
        "simulate": 4,
    }
    return question_of(given.pop("model", "llama-3.1-8b"), **{**usual, **given})


def judged(step_s: float, target: str = "8xh200", half: float = 0.04, **plan: Any) -> Judged:
    cluster = parse_target(target)
    layout = Parallelism(**plan) if plan else Parallelism(dp=cluster.n_devices)
    return Judged(
        candidate=Candidate(cluster, layout),
        scored_s=step_s,
        step_s=step_s,
        low_s=step_s * (1 - half),
        high_s=step_s * (1 + half),
        peak_bytes=10,
        usable_bytes=100,
        fits=1.0,
        energy_j=step_s * cluster.n_devices,
        usd=step_s * cluster.n_devices,
    )


def slower(each: Judged, factor: float) -> Judged:
    return replace(each, step_s=each.step_s * factor)
