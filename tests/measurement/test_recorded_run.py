"""A run measured on a real H200, saved, and loaded here."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuscope.analysis.compare import compare
from gpuscope.run.reader import load_runs

FILE = Path(__file__).resolve().parents[1] / "data" / "runs" / "h200-mlp-small.json.gz"


@pytest.fixture(scope="module")
def runs():
    return load_runs(FILE)


def test_prediction_and_measurement_load_again(runs) -> None:
    predicted, measured = runs
    assert (predicted.origin, measured.origin) == ("predicted", "measured")
    assert predicted.device_id == measured.device_id == "nvidia-h200-sxm"
    low, high = measured.step_time_interval_s
    assert low <= measured.step_time_s <= high
    assert measured.device_busy_s < measured.step_time_s


def test_how_it_was_measured_is_kept(runs) -> None:
    how = runs[1].measurement
    assert how is not None
    assert len(how.blocks_s) >= 6
    assert how.confidence >= 0.95
    assert how.profiled_step_s > runs[1].step_time_s  # the profiler costs time, and it is told
    assert how.machine["device"] == "NVIDIA H200"
    assert runs[1].energy_j == pytest.approx(how.average_w * runs[1].step_time_s, rel=0.1)


def test_the_recorded_columns_are_kept(runs) -> None:
    timeline = runs[1].timeline
    assert timeline.recorded is not None
    assert len(timeline.recorded) == int((timeline.events.kind < 4).sum()) > 100
    assert (timeline.recorded.launch >= 0).mean() > 0.9
    modules = {op.module for op in timeline.ops}
    assert {"1", "2"} <= modules  # nn.Sequential's parts


def test_the_difference_adds_up(runs) -> None:
    found = compare(*runs)
    for table in (found.classes, found.kinds, found.operators, found.modules):
        total = sum(row.difference_s for row in table)
        assert total == pytest.approx(found.difference_s, abs=1e-9)
    # this network is paced by the host, in the prediction and for real
    assert runs[0].analysis.findings[0].kind == runs[1].analysis.findings[0].kind == "host_bound"
