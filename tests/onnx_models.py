"""Small ONNX graphs, built node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

Shape = Sequence[int | str]


def model(
    path: Path,
    nodes: Sequence[Any],
    inputs: Mapping[str, Shape],
    weights: Mapping[str, Any],
    outputs: Sequence[str] = ("y",),
    *,
    opset: int = 18,
    kinds: Mapping[str, int] | None = None,
) -> Path:
    """Write a model; inputs are float32 where `kinds` says nothing else."""
    kinds = kinds or {}
    given = [
        helper.make_tensor_value_info(name, kinds.get(name, onnx.TensorProto.FLOAT), list(shape))
        for name, shape in inputs.items()
    ]
    made = [
        helper.make_tensor_value_info(name, kinds.get(name, onnx.TensorProto.FLOAT), None)
        for name in outputs
    ]
    held = [onnx.numpy_helper.from_array(np.asarray(w), name) for name, w in weights.items()]
    graph = helper.make_graph(list(nodes), "graph", given, made, held)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    opsets.append(helper.make_opsetid("my.domain", 1))
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    return path


def weight(*shape: int) -> Any:
    """Zeros."""
    return np.zeros(shape, np.float32)


def mlp(path: Path) -> Path:
    """Two layers with a GELU between them, taken apart as exporters do before version 20."""
    node = helper.make_node
    return model(
        path,
        [
            node("MatMul", ["x", "w1"], ["a"], "first"),
            node("Add", ["a", "b1"], ["h"], "first_bias"),
            node("Div", ["h", "root"], ["d"], "scaled"),
            node("Erf", ["d"], ["e"], "erf"),
            node("Add", ["e", "one"], ["p"], "plus"),
            node("Mul", ["h", "p"], ["m"], "times"),
            node("Mul", ["m", "half"], ["g"], "halved"),
            node("MatMul", ["g", "w2"], ["o"], "second"),
            node("Add", ["o", "b2"], ["y"], "second_bias"),
        ],
        {"x": ["batch", 64]},
        {
            "w1": weight(64, 256), "b1": weight(256), "w2": weight(256, 32), "b2": weight(32),
            "root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5),
        },
    )  # fmt: skip


def attention(path: Path) -> Path:
    """Scores, softmax, and the product with the values; then a skip connection and its norm."""
    node = helper.make_node
    return model(
        path,
        [
            node("Transpose", ["k"], ["kt"], "turned", perm=[0, 1, 3, 2]),
            node("MatMul", ["q", "kt"], ["s"], "scores"),
            node("Mul", ["s", "factor"], ["f"], "scaled"),
            node("Softmax", ["f"], ["p"], "softmax", axis=-1),
            node("MatMul", ["p", "v"], ["o"], "mixed"),
            node("Add", ["o", "q"], ["r"], "skip"),
            node("LayerNormalization", ["r", "g", "b"], ["y"], "norm", axis=-1),
        ],
        {"q": [2, 4, "seq", 32], "k": [2, 4, "seq", 32], "v": [2, 4, "seq", 32]},
        {"factor": np.float32(0.25), "g": weight(32), "b": weight(32)},
    )
