"""A run as one CUDA graph: the same kernels, one launch."""

import pytest
from graph_cases import branching, forecaster, layers


def test_the_host_launches_once(tmp_path):
    with forecaster(layers(tmp_path / "m.onnx", 64), batch=8) as made:
        before, found = made.case.run, made.forecast(["onnx-cuda-graph"])
        assert made.fit("onnx-cuda-graph").applies
        # Three nodes at 4 us and a launch each become one launch.
        assert found.run.host_busy_s < before.host_busy_s / 2
        assert found.run.device_busy_s == pytest.approx(before.device_busy_s, rel=0.2)
        assert found.speedup > 1


def test_where_the_device_sets_the_pace_it_gains_little(tmp_path):
    with forecaster(layers(tmp_path / "m.onnx"), batch=4096) as made:
        assert made.forecast(["onnx-cuda-graph"]).speedup < 1.1


def test_branches_cannot_be_recorded(tmp_path):
    with forecaster(branching(tmp_path / "m.onnx"), batch=8) as made:
        fit = made.fit("onnx-cuda-graph")
    assert not fit.applies
    assert "If" in str(fit.why)
