"""Execution traces of PyTorch itself, joined with the profiler's trace of the same run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuscope.errors import InputFileError
from gpuscope.loading import load
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.kineto.execution import pairs

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what PyTorch writes of two steps on the CPU, shapes left out of the trace."""
    folder = tmp_path_factory.mktemp("recorded")
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Linear(32, 4))
    x = torch.randn(8, 16)
    observer = torch.profiler.ExecutionTraceObserver().register_callback(str(folder / "et.json"))
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], execution_trace_observer=observer
    ) as profiler:
        for _ in range(2):
            torch.cat([model(x), x], dim=1).sum().backward()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    return folder


def test_operators_get_what_they_were_called_with(recorded: Path) -> None:
    bare = read_trace(recorded / "trace.json")
    assert not any(op.inputs for op in bare.ops)
    joined = read_trace(recorded / "trace.json", execution=str(recorded / "et.json"))
    assert len(joined.events) == len(bare.events)
    assert joined.sources[0].with_shapes
    assert joined.sources[0].path == str(recorded / "trace.json")
    called = {(op.name, tuple((spec.shape, spec.dtype) for spec in op.inputs)) for op in joined.ops}
    inputs = (((32,), "float32"), ((8, 16), "float32"), ((16, 32), "float32"))
    assert ("aten::addmm", inputs) in called


def test_a_folder_of_both_is_joined_and_one_alone_is_refused(recorded: Path) -> None:
    run = load(recorded)
    assert run.timeline.sources[0].with_shapes
    with pytest.raises(InputFileError, match="no times"):
        load(recorded / "et.json")


def test_one_of_another_run_changes_nothing(recorded: Path, tmp_path: Path) -> None:
    other = tmp_path / "et.json"
    other.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": [{"name": 3}, 4]}))
    found = load([recorded / "trace.json", other])
    assert not found.timeline.sources[0].with_shapes
    other.write_text('{"schema": "1.1.1-chakra.0.0.4", "nodes": [')
    with pytest.raises(InputFileError, match="cut off or damaged"):
        load([recorded / "trace.json", other])


def test_ranks_find_theirs() -> None:
    assert pairs([None], [3]) == [0]
    assert pairs([0, 1, 2], [2, 0]) == [1, None, 0]
    assert pairs([None, 1], [None, 1]) == [None, 1]


def test_the_form_of_before_chakra_is_joined_by_the_external_id(tmp_path: Path) -> None:
    """Built to what PyTorch 2.0 wrote (a recorded pair is in tests/data/public_recordings.toml)."""
    node = {
        "name": "aten::add", "id": 8, "rf_id": 4, "inputs": [[6, 7, 0, 12, 4, "cuda:0"], 1],
        "input_shapes": [[3, 4], []], "input_types": ["Tensor(float)", "Int"],
    }  # fmt: skip
    (tmp_path / "et.json").write_text(json.dumps({"schema": "1.0.1", "pid": 1, "nodes": [node]}))
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    events = [{**event, "args": {"External id": 4}}, {**event, "ts": 4, "args": {"External id": 5}}]
    (tmp_path / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    ops = load(tmp_path).timeline.ops
    assert {tuple(spec.shape for spec in op.inputs) for op in ops} == {((3, 4),), ()}


def test_a_recorded_pair_gives_the_shapes_of_a_gpu_s_kernels() -> None:
    """On an H200: a linear layer of 512 to 256 for 64 rows, forward and backward."""
    forms = Path(__file__).parents[1] / "data" / "forms"
    run = load([forms / "shapeless.json.gz", forms / "execution.json.gz"])
    products = {op.name: op for op in run.timeline.ops if op.name in ("aten::addmm", "aten::mm")}
    shapes = {name: [spec.shape for spec in op.inputs] for name, op in products.items()}
    assert shapes["aten::addmm"] == [(256,), (64, 512), (512, 256)]
    assert shapes["aten::mm"] == [(256, 64), (64, 512)]
