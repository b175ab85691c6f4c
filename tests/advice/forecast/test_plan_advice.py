"""Better splits of ready-made jobs: the way to the best, told."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from gpuscope.advice.forecast import plan_advice
from gpuscope.advice.forecast.plan_advice import advise_plan, explained_plan
from gpuscope.document.blocks import Paragraph
from gpuscope.document.text import render
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.workload import WorkloadOptions


def _world(step_s: Any, peak: Any = lambda p: 10**9) -> Any:
    """A prediction that is a function of the plan."""

    def recost(name: str, on: Any, *, options: WorkloadOptions, calibration: Any = None) -> Any:
        plan = options.parallel
        assert plan is not None
        time_s = step_s(plan)
        return SimpleNamespace(
            step_time_s=time_s,
            low_s=0.9 * time_s,
            high_s=1.1 * time_s,
            peak_memory_bytes=peak(plan),
            fits=peak(plan) < 140e9,
        )

    return recost


def _advice(monkeypatch: pytest.MonkeyPatch, recost: Any, **plan: Any) -> Any:
    monkeypatch.setattr(plan_advice.api, "recost", recost)
    options = WorkloadOptions(parallel=ParallelOptions(**plan))
    return advise_plan("llama-3.1-8b", "16xh200", options)


def test_goes_on_until_nothing_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best degree is two decisions away."""
    found = _advice(
        monkeypatch, _world(lambda p: 1 + abs(math.log2((p.tp or 1) / 4))), dp=16, fsdp="full"
    )
    assert [p.name for p in found.path] == ["plan:tp-2", "plan:tp-4"]
    assert found.path[-1].step_time_s == 1
    times = [p.step_time_s for p in found.neighbours]
    assert times == sorted(times)


def test_keeps_a_good_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _advice(monkeypatch, _world(lambda p: 1.0), dp=16, fsdp="full")
    assert found.path == ()
    assert "keep it" in explained_plan(found).summary[0]


def test_what_does_not_fit_is_no_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sharding nothing would be fastest, and does not fit."""
    found = _advice(
        monkeypatch,
        _world(
            lambda p: 0.5 if p.fsdp == "none" else 1.0,
            lambda p: int(200e9) if p.fsdp == "none" else 10**9,
        ),
        dp=16,
        fsdp="full",
    )
    assert found.path == ()
    (said,) = explained_plan(found).sections[-1].blocks[1:]
    assert isinstance(said, Paragraph)
    assert "need more than" in said.text
    assert "超出单卡" in render(said.text, "zh")


def test_one_that_fits_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _advice(
        monkeypatch,
        _world(
            lambda p: 2.0 if p.fsdp == "full" else 1.0,
            lambda p: 10**9 if p.fsdp == "full" else int(200e9),
        ),
        dp=16,
        fsdp="none",
    )
    assert found.start.fits is False
    assert [p.name for p in found.path] == ["plan:fsdp-full"]
    assert "does not fit" in explained_plan(found).summary[0]


def test_a_model_without_plans() -> None:
    options = WorkloadOptions(parallel=ParallelOptions(dp=2))
    with pytest.raises(UnsupportedError, match="no ready-made"):
        advise_plan("resnet50", "2xh200", options)


def test_a_plan_that_cannot_be() -> None:
    options = WorkloadOptions(parallel=ParallelOptions(tp=7))
    with pytest.raises(InvalidValueError):
        advise_plan("llama-3.1-8b", "8xh200", options)
