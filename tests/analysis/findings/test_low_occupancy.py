"""Recorded kernels with too few blocks."""

from __future__ import annotations

import pytest
from builders import H200, find, matmul
from builders import TimelineBuilder as Builder
from recorded_calls import Recording, Shape

from gpuscope.analysis import Finding, analyze


def found(recording: Recording) -> Finding | None:
    results = analyze(recording.build(), device=H200).findings
    return next((r for r in results if r.kind == "low_occupancy"), None)


def test_a_grid_of_a_quarter_of_the_device_loses_three_quarters() -> None:
    recording = Recording()
    recording.call(-1, ("one kernel", 100.0, Shape(grid=33)))
    recording.call(-1, ("another kernel", 300.0, Shape(grid=132 * 8)))
    result = found(recording)
    assert result is not None
    assert result.max_gain_s == pytest.approx(75e-6)
    assert "one kernel" in result.evidence
    assert "33 blocks" in result.evidence
    assert result.title_zh
    assert result.evidence_zh
    assert result.hint_zh


def test_full_grids_short_kernels_and_small_shares_are_fine() -> None:
    full = Recording()
    full.call(-1, ("kernel", 100.0, Shape(grid=132)))
    assert found(full) is None
    short = Recording()
    for _ in range(20):
        short.call(-1, ("kernel", 4.0, Shape(grid=1)))
    assert found(short) is None
    rare = Recording()
    rare.call(-1, ("kernel", 10.0, Shape(grid=1)))
    rare.call(-1, ("kernel", 500.0, Shape(grid=1320)))
    assert found(rare) is None


def test_grids_that_were_not_recorded_say_nothing() -> None:
    recording = Recording()
    recording.call(-1, ("kernel", 100.0, Shape(grid=-1, block=-1)))
    assert found(recording) is None


def test_predictions_have_other_findings() -> None:
    b = Builder()
    b.chain([matmul(100.0, 0.1, waves=0.2, grid=26)])
    assert find(b, "low_occupancy") is None
