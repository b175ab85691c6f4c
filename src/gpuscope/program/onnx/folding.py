"""Nodes whose inputs are known are computed once, when the model is loaded, as engines do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuscope.program.onnx.graph import KNOWN_ELEMENTS, Constant, Node

__all__ = ["folded"]

_SIZED = frozenset({"ConstantOfShape", "Expand", "Range", "Tile", "OneHot", "EyeLike", "Resize"})
"""Their results may be much larger than their inputs: left to the device."""

_RANDOM = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"})


def folded(node: Node, inputs: Sequence[Any], opset: int) -> Any:
    """The node's results as known values; None where they depend on data, or are large."""
    if node.kind in ("Shape", "Size"):
        return _shape(node, inputs[0])
    if node.domain or node.bodies or node.kind in _RANDOM:
        return None
    if not inputs or not all(value is None or isinstance(value, np.ndarray) for value in inputs):
        return None
    if node.kind in _SIZED and _made_elements(node, inputs) > KNOWN_ELEMENTS:
        return None
    if node.kind in ("QuantizeLinear", "DequantizeLinear"):
        return None
    try:
        return _computed(node, inputs, opset)
    except Exception:  # the device computes it
        return None


def _shape(node: Node, value: Any) -> Any:
    sizes = list(value.integers.shape if hasattr(value, "integers") else value.shape)
    if node.kind == "Size":
        return np.array(math.prod(sizes), dtype=np.int64)
    start, end = node.attributes.get("start", 0), node.attributes.get("end")
    return np.array(sizes[start:end], dtype=np.int64)


def _made_elements(node: Node, inputs: Sequence[Any]) -> int:
    """Elements of the result; very many where that is not told quickly."""
    if node.kind == "ConstantOfShape":
        return math.prod(int(v) for v in inputs[0])
    if node.kind == "Expand":
        return math.prod(np.broadcast_shapes(inputs[0].shape, tuple(map(int, inputs[1]))))
    if node.kind == "Range":
        start, end, step = (float(v) for v in inputs)
        return int((end - start) / step) if step else 1 << 40
    if node.kind == "Tile":
        return int(inputs[0].size) * math.prod(int(v) for v in inputs[1])
    return 1 << 40


def _computed(node: Node, inputs: Sequence[Any], opset: int) -> Any:
    import onnx
    from onnx.reference import ReferenceEvaluator

    names = [f"i{n}" if value is not None else "" for n, value in enumerate(inputs)]
    attributes = {
        name: onnx.numpy_helper.from_array(value.values) if isinstance(value, Constant) else value
        for name, value in node.attributes.items()
    }
    outputs = [f"o{n}" for n in range(len(node.outputs))]
    proto = onnx.helper.make_node(node.kind, names, outputs, **attributes)
    given = {name: value for name, value in zip(names, inputs, strict=True) if name}
    empty = onnx.TensorProto.UNDEFINED
    graph = onnx.helper.make_graph(
        [proto],
        "folded",
        [onnx.helper.make_tensor_value_info(name, empty, None) for name in given],
        [onnx.helper.make_tensor_value_info(name, empty, None) for name in outputs],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    made = ReferenceEvaluator(model).run(None, given)
    if any(not isinstance(m, (np.ndarray, np.generic)) or m.size > 1 << 22 for m in made):
        return None
    return tuple(np.asarray(each) for each in made)
