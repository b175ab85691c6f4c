"""Reports of inference engines: what is read of each, and what each cannot answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from gpuscope.errors import InputFileError
from gpuscope.loading import load
from gpuscope.run import Run
from gpuscope.timeline.trace_files import kind_of
from gpuscope.timeline.types import EVENT_KINDS

DATA = Path(__file__).parents[1] / "data" / "engine_reports"


def read(name: str, says: str) -> Run:
    assert kind_of(DATA / name) == "engine"
    run = load(DATA / name)
    assert any(says in note for note in run.assumptions)
    return run


def named(run: Run, kind: str) -> list[tuple[str, int]]:
    assert run.timeline is not None
    events, number = run.timeline.events, EVENT_KINDS.index(kind)
    return [
        (run.timeline.names[n], int(d))
        for n, d, k in zip(events.name, events.duration_ns, events.kind, strict=True)
        if k == number
    ]


def test_onnx_runtime_s_profile_is_its_nodes_in_its_runs() -> None:
    run = read("onnxruntime.json", "when they were launched")
    nodes = named(run, "operator")
    events = json.loads((DATA / "onnxruntime.json").read_text())
    of_file = [e for e in events if e["cat"] == "Node"]
    assert len(nodes) == len(of_file)
    assert sum(d for _, d in nodes) == 1000 * sum(e["dur"] for e in of_file)
    assert run.timeline is not None
    assert len(run.timeline.steps) == 2
    assert run.timeline.sources[0].format == "onnxruntime"
    shaped = [op for op in run.timeline.ops if op.name.endswith("MatMul")]  # type: ignore[attr-defined]
    assert shaped
    assert all(op.inputs for op in shaped)  # type: ignore[attr-defined]


def test_onnx_runtime_s_kernels_are_the_device_s(tmp_path: Path) -> None:
    kernel = {"cat": "Kernel", "pid": 1, "tid": 1, "dur": 7, "ts": 12, "ph": "X", "name": "gemm",
              "args": {"stream": 13}}  # fmt: skip
    run = {"cat": "Session", "pid": 1, "tid": 1, "dur": 20, "ts": 10, "ph": "X",
           "name": "model_run", "args": {}}  # fmt: skip
    path = tmp_path / "cuda.json"
    path.write_text(json.dumps([run, kernel]))
    assert named(load(path), "kernel") == [("gemm", 7000)]


def test_trtexec_s_times_are_queries() -> None:
    run = read("trtexec_times.json", "whole queries")
    assert run.step_time_s == pytest.approx(2.5e-3)
    assert run.device_busy_s == pytest.approx(2.5e-3)
    assert named(run, "kernel") == [("engine", 2_000_000)] * 2
    assert {name for name, _ in named(run, "memcpy")} == {"Memcpy HtoD", "Memcpy DtoH"}


def test_trtexec_s_profile_is_layers_in_a_row() -> None:
    run = read("trtexec_profile.json", "without a gap")
    assert run.step_time_s == pytest.approx(0.4e-3)
    assert named(run, "kernel") == [("conv1 + relu1", 100_000), ("fc", 300_000)]


def test_openvino_s_counters_are_layers_in_a_row() -> None:
    run = read("openvino_counters.csv", "OpenVINO")
    assert named(run, "operator") == [("Convolution", 1_500_000), ("FullyConnected", 500_000)]
    assert run.step_time_s == pytest.approx(2e-3)


def test_layers_without_times_are_refused_with_what_to_type(tmp_path: Path) -> None:
    path = tmp_path / "layers.json"
    path.write_text('{"Layers": [{"Name": "conv1", "LayerType": "CaskConvolution"}]}')
    with pytest.raises(InputFileError, match="no times") as caught:
        load(path)
    assert "--exportProfile" in caught.value.next_step


def test_a_report_that_is_cut_off_is_damaged(tmp_path: Path) -> None:
    path = Path(shutil.copy(DATA / "onnxruntime.json", tmp_path / "cut.json"))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(InputFileError, match="damaged"):
        load(path)


PROFILE, LAYERS = DATA / "trtexec_profile.json", DATA / "trtexec_layers.json"


def test_layer_information_says_what_each_layer_of_a_profile_is() -> None:
    run = load([LAYERS, PROFILE])
    assert run.step_time_s == pytest.approx(0.4e-3)
    kernels = named(run, "kernel")
    assert kernels[0][0].startswith("sm80_xmma_fprop_implicit_gemm_f16f16")
    assert kernels[1] == ("CaskGemmMatrixMultiply", 300_000)  # its tactic is a number
    timeline = run.timeline
    rows = np.flatnonzero(timeline.events.kind == EVENT_KINDS.index("kernel"))
    ops = [timeline.ops[at] for at in timeline.events.op[rows]]
    assert [op.name for op in ops] == ["conv1 + relu1", "fc"]
    assert [(spec.shape, spec.dtype) for spec in ops[0].inputs] == [((8, 3, 224, 224), "float16")]
    assert named(run, "operator") == [("conv1 + relu1", 0), ("fc", 0)]  # the host was not recorded


def test_information_on_another_engine_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "layers.json"
    other.write_text('{"Layers": ["conv9", {"Name": "fc9"}, 3]}')
    with pytest.raises(InputFileError, match="does not belong") as caught:
        load([PROFILE, other])
    assert "2 layers" in str(caught.value.why)
    assert "--exportLayerInfo" in caught.value.next_step


def test_names_alone_change_nothing(tmp_path: Path) -> None:
    names = tmp_path / "layers.json"
    names.write_text('{"Layers": ["conv1 + relu1", "fc"]}')
    assert named(load([PROFILE, names]), "kernel") == named(load(PROFILE), "kernel")
