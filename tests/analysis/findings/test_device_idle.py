"""Idle time that no other finding speaks of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import H200
from rank_builder import RankBuilder

from gpuscope.analysis import Finding, analyze
from gpuscope.document.text import render
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.types import Timeline

TRACES = Path(__file__).parents[2] / "data" / "traces"


def found(timeline: Timeline) -> Finding | None:
    results = analyze(timeline, on=H200).findings
    return next((result for result in results if result.kind == "device_idle"), None)


def test_a_device_that_idles_half_of_the_time_is_told_so() -> None:
    """Without a recorded host nothing stood out, the device half idle."""
    b = RankBuilder()
    for at in range(50):
        b.work(at * 200.0, at * 200.0 + 100.0, name="kernel")
    result = found(b.timeline())
    assert result is not None
    assert result.max_gain_s == pytest.approx(49 * 100e-6, rel=0.01)
    assert "50 % of the step" in result.title or "49 % of the step" in result.title
    for text in (result.title, result.evidence, result.hint):
        assert render(text, "zh") != text


def test_a_busy_device_is_not_idle() -> None:
    b = RankBuilder()
    for at in range(50):
        b.work(at * 105.0, at * 105.0 + 100.0, name="kernel")
    assert found(b.timeline()) is None


@pytest.mark.parametrize("name", ["host_bound", "input_bound", "sync_bound", "graph_decode"])
def test_idle_time_that_has_a_finding_is_not_told_twice(name: str) -> None:
    timeline = read_trace(TRACES / "h200" / name / "rank-0.json.gz")
    analysis = analyze(timeline, on=H200)
    told = sum(f.max_gain_s or 0.0 for f in analysis.findings if f.kind == "device_idle")
    idle = {share.label: share.time_s for share in analysis.classes if "idle" in share.label}
    assert told <= sum(idle.values()) - max(idle.values()) + 1e-9


def test_a_prediction_has_other_findings() -> None:
    b = RankBuilder()
    for at in range(50):
        b.work(at * 200.0, at * 200.0 + 100.0, name="kernel")
    predicted = replace(b.timeline(), origin="predicted", recorded=None, sources=())
    assert found(predicted) is None
