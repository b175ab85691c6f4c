"""An ONNX graph run by ONNX Runtime on the host."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuscope as gs
import onnx_models as models
from gpuscope.errors import InvalidValueError, UnsupportedError, WorkloadError
from gpuscope.program.models.settings import WorkloadOptions

EIGHT = WorkloadOptions(axes=(("batch", 8),))


def test_it_ends_in_a_run_with_each_node(tmp_path: Path) -> None:
    path = models.mlp(tmp_path / "mlp.onnx")
    run = gs.measure(str(path), options=EIGHT, on="cpu", seconds=0.05)
    assert run.origin == "measured"
    low, high = run.step_time_interval_s
    assert 0 < low <= run.step_time_s <= high
    assert run.samples == 8
    assert run.measurement is not None
    assert run.measurement.machine["provider"] == "CPUExecutionProvider"
    assert run.timeline is not None
    assert len(run.timeline.steps) == run.measurement.profiled_steps
    kinds = {op.name.rpartition("::")[2] for op in run.timeline.ops}  # type: ignore[attr-defined]
    assert kinds & {"Gemm", "MatMul", "FusedGemm"}


def test_without_a_profile_there_is_the_time_alone(tmp_path: Path) -> None:
    path = models.mlp(tmp_path / "mlp.onnx")
    run = gs.measure(str(path), options=EIGHT, on="cpu", seconds=0.02, profile=False)
    assert run.step_time_s > 0
    assert run.peak_memory_bytes is None


def test_wrong_input_is_one_sentence(tmp_path: Path) -> None:
    path = str(models.mlp(tmp_path / "mlp.onnx"))
    with pytest.raises(UnsupportedError, match="CUDAExecutionProvider"):
        gs.measure(path, options=EIGHT, on="cuda")
    with pytest.raises(InvalidValueError, match="mps"):
        gs.measure(path, options=EIGHT, on="mps")
    with pytest.raises(InvalidValueError, match="leaves sizes open"):
        gs.measure(path, on="cpu")
    with pytest.raises(InvalidValueError, match="as it is"):
        gs.measure(path, options=WorkloadOptions(batch=8, dtype="fp16"), on="cpu")
    exported = Path(__file__).parents[1] / "data" / "onnx" / "exported.onnx"
    with pytest.raises(WorkloadError, match="cannot run"):  # its weights are not beside it
        gs.measure(str(exported), options=EIGHT, on="cpu", seconds=0.02)
