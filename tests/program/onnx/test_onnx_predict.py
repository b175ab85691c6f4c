"""An ONNX graph as a program: its work, its sizes, what engines make of it, wrong input."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch import nn

import gpuscope as gs
import onnx_models as models
from gpuscope.capturing import capture
from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError, UnsupportedError
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.onnx import graph
from gpuscope.program.types import FUSED, Program

EXPORTED = Path(__file__).parents[2] / "data" / "onnx" / "exported.onnx"
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::convolution", "aten::_int_mm")


def captured(path: Path, engine: str = "pytorch", **axes: int) -> Program:
    return capture(str(path), options=WorkloadOptions(engine=engine, axes=tuple(axes.items())))


def names(program: Program) -> Counter[str]:
    return Counter(op.name for op in program.ops if not op.view and op.outputs)


def products(program: Program) -> list[Any]:
    """Shapes and dtypes of what each product reads and writes, biases aside."""
    return [
        sorted((s.shape, s.dtype) for s in (*op.inputs, *op.outputs) if len(s.shape) > 1)
        for op in program.ops
        if op.name in PRODUCTS
    ]


class Net(nn.Module):
    """What the exported graph was made of."""

    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(3, 16, 3, 2, 1, bias=False)
        self.c2 = nn.Conv2d(16, 16, 3, 1, 1)
        self.f = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.c1(x))
        x = torch.relu(x + self.c2(x))
        out: torch.Tensor = self.f(x.mean((2, 3)))
        return out


def test_an_exported_graph_does_the_work_of_the_code_that_it_was_made_of() -> None:
    def build() -> Callable[[], object]:
        model, x = Net().cuda().eval(), torch.zeros(8, 3, 32, 32, device="cuda")

        def step() -> object:
            with torch.no_grad():
                return model(x)

        return step

    found, code = captured(EXPORTED, batch=8), capture(build)
    assert products(found) == products(code)
    assert found.parameters == code.parameters
    assert "aten::native_batch_norm" not in names(found)


def test_weights_may_be_absent_and_nodes_are_named(tmp_path: Path) -> None:
    path = Path(shutil.copy(EXPORTED, tmp_path / "alone.onnx"))
    found = captured(path, batch=2)
    assert {op.module for op in found.ops} >= {"node_linear", "node_mean"}
    assert any(s.category == "parameter" for s in found.storages)


def test_sizes_follow_from_the_axes(tmp_path: Path) -> None:
    path = models.mlp(tmp_path / "mlp.onnx")
    small, large = captured(path, batch=2), captured(path, batch=16)
    assert products(small)[0] == [((2, 64), "float32"), ((2, 256), "float32"),
                                  ((64, 256), "float32")]  # fmt: skip
    assert large.samples == 16
    by_option = capture(str(path), options=WorkloadOptions(engine="pytorch", batch=16))
    assert products(by_option) == products(large)


def test_an_engine_fuses_what_its_profile_says(tmp_path: Path) -> None:
    mlp, heads = models.mlp(tmp_path / "mlp.onnx"), models.attention(tmp_path / "heads.onnx")
    plain = names(captured(mlp, "pytorch", batch=8))
    assert plain["aten::mm"] == 2
    assert plain["aten::erf"] == 1
    fused = names(captured(mlp, "onnxruntime", batch=8))
    assert fused == {"aten::addmm": 2, "aten::gelu": 1}
    attention = captured(heads, "onnxruntime", seq=64)
    assert names(attention)["aten::bmm"] == 2
    assert [op.args["operators"] for op in attention.ops if op.name == FUSED] == [
        ("SkipLayerNormalization",)
    ]
    assert names(captured(heads, "tensorrt", seq=64)) == {"gpuscope::attention": 1, FUSED: 1}


def test_tensorrt_writes_a_product_s_activation_with_it(tmp_path: Path) -> None:
    found = captured(EXPORTED, "tensorrt", batch=8)
    assert names(found) == {"aten::convolution": 2, "aten::addmm": 1, FUSED: 1}
    path = models.model(
        tmp_path / "skip.onnx",
        [
            helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1] * 4),
            helper.make_node("Add", ["c", "x"], ["a"], "skip"),
            helper.make_node("Relu", ["a"], ["y"], "relu"),
        ],
        {"x": [8, 16, 16, 16]},
        {"w": models.weight(16, 16, 3, 3)},
    )
    found = captured(path, "tensorrt")
    assert names(found) == {"aten::convolution": 1}
    work = [op for op in found.ops if not op.view]
    skip = next(op for op in work if op.name == FUSED and not op.outputs)
    assert [s.shape for s in skip.inputs] == [(8, 16, 16, 16)]
    ids = {s.id for s in found.storages}
    assert all(s.storage in ids for op in work for s in op.outputs)


def test_the_host_of_an_engine_is_no_python(tmp_path: Path) -> None:
    path = models.mlp(tmp_path / "mlp.onnx")
    options = {e: WorkloadOptions(engine=e, batch=8) for e in ("pytorch", "onnxruntime")}
    own, engine = (gs.predict(str(path), "h200", options=o) for o in options.values())
    assert engine.host_busy_s is not None
    assert own.host_busy_s is not None
    assert engine.host_busy_s < own.host_busy_s / 5
    assert any("ONNX Runtime" in text for text in engine.assumptions)
    low, high = engine.step_time_interval_s
    assert low < engine.step_time_s < high


def test_half_precision_is_asked_for(tmp_path: Path) -> None:
    path = models.mlp(tmp_path / "mlp.onnx")
    half = capture(str(path), options=WorkloadOptions(dtype="fp16", batch=8))
    assert {s.dtype for op in half.ops for s in op.outputs} == {"float16"}


def test_quantized_pairs_are_a_product_of_integers(tmp_path: Path) -> None:
    node = helper.make_node
    path = models.model(
        tmp_path / "q.onnx",
        [
            node("QuantizeLinear", ["x", "s", "z"], ["q"], "in"),
            node("DequantizeLinear", ["q", "s", "z"], ["d"], "back"),
            node("DequantizeLinear", ["w", "s", "z"], ["dw"], "weights"),
            node("MatMul", ["d", "dw"], ["y"], "product"),
        ],
        {"x": [32, 64]},
        {"s": np.float32(0.1), "z": np.int8(0), "w": np.zeros((64, 128), np.int8)},
    )
    found = captured(path)
    assert names(found) == {FUSED: 1, "aten::_int_mm": 1}
    product = next(op for op in found.ops if op.name == "aten::_int_mm")
    assert {s.dtype for s in product.inputs} == {"int8"}


def quantized_convolution(path: Path) -> Path:
    node = helper.make_node
    return models.model(
        path,
        [
            node("QuantizeLinear", ["x", "s", "z"], ["q"], "in"),
            node("DequantizeLinear", ["q", "s", "z"], ["d"], "back"),
            node("DequantizeLinear", ["w", "s", "z"], ["dw"], "weights"),
            node("Conv", ["d", "dw", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
            node("QuantizeLinear", ["c", "s", "z"], ["qc"], "out"),
            node("DequantizeLinear", ["qc", "s", "z"], ["y"], "result"),
        ],
        {"x": [8, 64, 56, 56]},
        {
            "s": np.float32(0.1),
            "z": np.int8(0),
            "w": np.zeros((128, 64, 3, 3), np.int8),
            "b": np.zeros(128, np.float32),
        },
    )


def test_a_quantized_convolution_is_of_integers_where_the_engine_has_them(tmp_path: Path) -> None:
    path = quantized_convolution(tmp_path / "q.onnx")
    made = {}
    for engine in ("tensorrt", "onnxruntime"):
        found = capture(str(path), options=WorkloadOptions(engine=engine))
        made[engine] = next(op for op in found.ops if op.name == "aten::convolution")
    assert {s.dtype for s in made["tensorrt"].inputs} == {"int8"}
    assert made["tensorrt"].outputs[0].shape == (8, 128, 56, 56)
    # A quarter of float32's bytes, half of float16's.
    assert made["tensorrt"].outputs[0].nbytes * 2 == made["onnxruntime"].outputs[0].nbytes
    assert {s.dtype for s in made["onnxruntime"].inputs} == {"float16"}


def test_an_unknown_operator_is_named_and_bound_by_its_bytes(tmp_path: Path) -> None:
    path = models.model(
        tmp_path / "own.onnx",
        [helper.make_node("Magic", ["x"], ["y"], "magic", domain="my.domain")],
        {"x": [1024, 1024]},
        {},
    )
    found = captured(path)
    assert found.unsupported == ("my.domain.Magic",)
    run = gs.predict(str(path), "h200")
    assert any("my.domain.Magic" in text for text in run.assumptions)
    assert run.device_busy_s > 8 * 2**20 / 5e12


def test_branches_and_loops_run_as_often_as_is_known(tmp_path: Path) -> None:
    node, tensor = helper.make_node, onnx.TensorProto.FLOAT
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Relu", ["s"], ["t"], "inner"), node("Identity", ["c"], ["d"], "same")],
        "body",
        [value("i", onnx.TensorProto.INT64, []), value("c", onnx.TensorProto.BOOL, []),
         value("s", tensor, None)],
        [value("d", onnx.TensorProto.BOOL, []), value("t", tensor, None)],
    )  # fmt: skip
    branch = helper.make_graph(
        [node("Tanh", ["z"], ["b"], "yes")], "b", [], [value("b", tensor, None)]
    )
    other = helper.make_graph(
        [node("Exp", ["z"], ["b"], "no")], "b", [], [value("b", tensor, None)]
    )
    path = models.model(
        tmp_path / "loop.onnx",
        [
            node("Loop", ["n", "go", "x"], ["z"], "loop", body=body),
            node("If", ["go"], ["y"], "if", then_branch=branch, else_branch=other),
        ],
        {"x": [64, 64]},
        {"n": np.int64(3), "go": np.array(True)},
    )
    assert names(captured(path)) == {"aten::relu": 3, "aten::tanh": 1}


def _refused(path: Path, error: type[GpuscopeError], *said: str, **options: Any) -> None:
    with pytest.raises(error) as caught:
        capture(str(path), options=WorkloadOptions(**options))
    whole = f"{caught.value.what} {caught.value.why} {caught.value.next_step}"
    for text in said:
        assert text in whole
    assert caught.value.next_step


def test_wrong_input_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = models.mlp(tmp_path / "mlp.onnx")
    _refused(path, InvalidValueError, "batch", "--set batch=8")
    _refused(path, InvalidValueError, "--seq", batch=8, seq=8)
    _refused(path, InvalidValueError, "batch=0", axes=(("batch", 0),))
    _refused(path, InvalidValueError, "--optimizer", batch=8, optimizer="sgd")
    _refused(path, InvalidValueError, "train", batch=8, task="train")
    with pytest.raises(gs.UnknownNameError, match="dynamic axis"):
        capture(str(path), options=WorkloadOptions(axes=(("bach", 8),)))
    with pytest.raises(gs.UnknownNameError, match="engine"):
        capture(str(path), options=WorkloadOptions(batch=8, engine="trt"))
    with pytest.raises(InvalidValueError, match="no ONNX graph"):
        capture("gpt2", options=WorkloadOptions(engine="tensorrt"))
    _refused(tmp_path / "none.onnx", InputFileError, "no file")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(path.read_bytes()[:100])
    _refused(broken, InputFileError, "not a whole ONNX model")
    old = models.model(tmp_path / "old.onnx", [helper.make_node("Relu", ["x"], ["y"])],
                       {"x": [1]}, {}, opset=3)  # fmt: skip
    _refused(old, UnsupportedError, "version 3")
    monkeypatch.setattr(graph, "LARGEST_BYTES", 100)
    _refused(path, InputFileError, "external data", batch=8)


def test_a_shape_that_data_decides_is_refused(tmp_path: Path) -> None:
    path = models.model(
        tmp_path / "data.onnx",
        [helper.make_node("Reshape", ["x", "s"], ["y"], "shaped")],
        {"x": [4, 4], "s": [2]},
        {},
        kinds={"s": onnx.TensorProto.INT64},
    )
    _refused(path, InvalidValueError, "shaped", "from data")


def test_trials_of_code_are_refused(tmp_path: Path) -> None:
    path = models.mlp(tmp_path / "mlp.onnx")
    with pytest.raises(UnsupportedError, match="written for PyTorch"):
        gs.optimize(str(path), device="cpu")


def test_nodes_may_stand_in_any_order(tmp_path: Path) -> None:
    path = models.mlp(tmp_path / "mlp.onnx")
    ordered = products(captured(path, batch=8))
    proto = onnx.load(path)
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend(reversed(nodes))
    onnx.save(proto, path)
    assert products(captured(path, batch=8)) == ordered


def test_what_no_engine_was_measured_for_is_called_estimated(tmp_path: Path) -> None:
    path = str(models.mlp(tmp_path / "mlp.onnx"))
    origins = {
        engine: gs.predict(
            path, options=WorkloadOptions(engine=engine, axes=(("batch", 8),))
        ).origins["step_time_s"]
        for engine in ("pytorch", "onnxruntime")
    }
    assert origins == {"pytorch": "calibrated", "onnxruntime": "estimated"}
