"""Recorded kernels with too few blocks."""

from __future__ import annotations

import numpy as np
import pytest
from builders import H200, find, matmul
from builders import TimelineBuilder as Builder
from recorded_calls import Recording, Shape

from gpuscope.analysis import Finding, analyze
from gpuscope.analysis.findings.low_occupancy import empty_share
from gpuscope.document.text import render


def found(recording: Recording) -> Finding | None:
    results = analyze(recording.build(), on=H200).findings
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
    assert render(result.title, "zh") != result.title
    assert render(result.evidence, "zh") != result.evidence
    assert render(result.hint, "zh")


def beside(blocks: int, name: str, kind: str) -> Finding | None:
    """A product on 112 of 132 multiprocessors, with another kernel beside it all the time."""
    recording = Recording()
    for at in range(4):
        for start, grid, symbol, stream, sort in (
            (at * 120.0, 112, "gemm", "stream 7", "kernel"),
            (at * 120.0 + 0.001, blocks, name, "stream 20", kind),
        ):
            recording.shapes[round(start * 1000)] = Shape(grid=grid)
            recording.builder.work(start, start + 100.0, name=symbol, stream=stream, kind=sort)
    return found(recording)


def test_what_runs_beside_a_kernel_fills_the_rest() -> None:
    """DeepSeek's own recordings: 20 multiprocessors talk while 112 multiply."""
    assert beside(20, "dpsk::ep::internode::dispatch", "communication") is None
    assert beside(20, "another", "kernel") is None
    few = beside(4, "another", "kernel")
    assert few is not None
    # Counted once, though both are too small: 16 of 132 stay empty for 400 us.
    assert few.max_gain_s == pytest.approx(400e-6 * 16 / 132, rel=0.01)


def test_the_share_that_is_empty_is_a_mean_over_the_kernels_time() -> None:
    start, end = np.array([0, 50, 200]), np.array([100, 150, 300])
    empty = empty_share(start, end, np.array([0.5, 0.25, 1.0]))
    assert empty == pytest.approx([0.375, (0.25 + 0.75) / 2, 0.0])


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
