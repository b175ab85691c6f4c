"""Questions and simulated candidates made by hand."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from gpuscope.hardware import parse_target
from gpuscope.planning import search as searching
from gpuscope.planning.dimensions.registry import Choices
from gpuscope.planning.interrupted import by_score
from gpuscope.planning.question import question_of
from gpuscope.planning.score import score
from gpuscope.planning.simulate import Simulator, probability_to_fit
from gpuscope.planning.tuning.score import estimate
from gpuscope.planning.tuning.simulate import Simulator as TuningSimulator
from gpuscope.planning.tuning.types import Tuned, Weighed
from gpuscope.planning.types import Candidate, Judged, Plan, Question
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


def planned(more: Choices = (), target: str = "8xh200", **layout: Any) -> Plan:
    """A plan whose best chooses something beside its layout, too."""
    best = judged(1.0, target, **layout)
    best = replace(best, candidate=replace(best.candidate, more=more))
    return Plan(
        question=asked(),
        best=best,
        ties=(best,),
        front=(best,),
        judged=(best,),
        rejected=(),
        candidates=1,
        scored_per_s=1.0,
    )


def torchtitan_reads(text: str, folder: Path) -> Any:
    """torchtitan's own reader of a file (before 0.3); skips where it is not installed."""
    if importlib.util.find_spec("triton") is None:  # what names kernels is of no account
        sys.modules.setdefault("torchtitan.models.moe.kernels", mock.MagicMock())
    pytest.importorskip("torchtitan.config.job_config")
    manager = pytest.importorskip("torchtitan.config").ConfigManager()
    path = folder / "plan.toml"
    path.write_text(text, "utf-8")
    return manager.parse_args(["--job.config_file", str(path)])


def slower(each: Judged, factor: float) -> Judged:
    return replace(each, step_s=each.step_s * factor)


def scored_alone() -> Iterator[None]:
    """The quick score stands in for the simulator: as monotonous as it, and quick (a fixture)."""

    def judge(self: Simulator, candidate: Candidate, scored_s: float) -> Judged:
        scores = score(self.question, [candidate])
        step_s, peak = float(scores.estimate_s[0]), float(scores.estimate_bytes[0])
        cluster = candidate.cluster
        usable, price = cluster.device.memory_usable_bytes, cluster.price_usd_per_hour
        return replace(
            judged(step_s),
            candidate=candidate,
            scored_s=scored_s,
            peak_bytes=int(peak),
            usable_bytes=usable,
            fits=probability_to_fit(peak, usable),
            usd=None if price is None else price * step_s / 3600,
            energy_j=(cluster.device.tdp_w or 0.0) * cluster.n_devices * step_s,
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Simulator, "judge", judge)
        patch.setattr(searching, "composed", lambda *_: {})
        yield


def tuned_alone() -> Iterator[None]:
    """The same for fine-tuning."""

    def judge(self: TuningSimulator, each: Tuned, seq: int | None = None) -> Weighed:
        quick = estimate(self.question.size, seq or self.question.seq, each)
        return by_score(
            Weighed, each, quick.step_s, quick.peak_bytes, scored_bytes=quick.peak_bytes
        )

    def simulated(*given: Any, **more: Any) -> Weighed:
        found = judge(*given, **more)
        device = found.candidate.cluster.device
        energy_j = (device.tdp_w or 0.0) * found.candidate.devices * found.step_s
        low_s, high_s = 0.96 * found.step_s, 1.04 * found.step_s
        return replace(found, simulated=True, low_s=low_s, high_s=high_s, energy_j=energy_j)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TuningSimulator, "judge", simulated)
        patch.setattr(
            TuningSimulator,
            "peak_bytes",
            lambda self, each, seq: round(estimate(self.question.size, seq, each).peak_bytes),
        )
        yield
