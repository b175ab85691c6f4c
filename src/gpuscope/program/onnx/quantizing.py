"""What a static quantization makes of a graph: quantize and dequantize pairs around products.

The pairs stand where `onnxruntime.quantization.quantize_static` puts them (format QDQ, symmetric):
before and after each product and convolution that has a weight, the weight kept as integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gpuscope.program.onnx.graph import Constant, Graph, Node

__all__ = ["quantizable", "quantized"]

_KINDS = ("MatMul", "Gemm", "Conv")


def quantizable(graph: Graph) -> tuple[Node, ...]:
    """Products and convolutions whose second operand is a real weight."""
    return tuple(
        node
        for node in graph.nodes
        if not node.domain and node.kind in _KINDS and _is_weight(graph.constants, node.inputs[1])
    )


def _is_weight(constants: Mapping[str, Constant], name: str) -> bool:
    found = constants.get(name)
    return found is not None and "float" in found.dtype and len(found.shape) > 1


def quantized(graph: Graph) -> Graph:
    """The graph with pairs around each of `quantizable`, one for a tensor that many read."""
    chosen = {id(node) for node in quantizable(graph)}
    read = {node.inputs[0] for node in graph.nodes if id(node) in chosen}
    made = {node.outputs[0] for node in graph.nodes if id(node) in chosen}
    paired = (read | made) - {*graph.outputs, *graph.constants}
    constants = dict(graph.constants)
    constants["gpuscope/scale"] = Constant((), "float32", np.array(1.0, np.float32))
    constants["gpuscope/zero"] = Constant((), "int8", np.array(0, np.int8))
    nodes: list[Node] = []
    for given in graph.inputs:
        if given.name in paired:
            nodes += _pair(given.name)
    for node in graph.nodes:
        if id(node) in chosen:
            weight = node.inputs[1]
            whole = f"{weight}/quantized"
            if whole not in constants:
                constants[whole] = Constant(graph.constants[weight].shape, "int8")
                nodes.append(_dequantize(whole, f"{weight}/real"))
            inputs = (node.inputs[0], f"{weight}/real", *node.inputs[2:])
            node = replace(node, inputs=inputs)
        nodes.append(replace(node, inputs=tuple(_real(n, paired) for n in node.inputs)))
        for name in node.outputs:
            if name in paired:
                nodes += _pair(name)
    left = {name for node in nodes for name in node.inputs}
    kept = {name: each for name, each in constants.items() if name in left}
    return replace(graph, nodes=tuple(nodes), constants=kept)


def _real(name: str, paired: set[str]) -> str:
    return f"{name}/dequantized" if name in paired else name


def _pair(name: str) -> list[Node]:
    whole = f"{name}/quantized"
    scale = ("gpuscope/scale", "gpuscope/zero")
    quantize = Node(whole, "QuantizeLinear", "", (name, *scale), (whole,))
    return [quantize, _dequantize(whole, f"{name}/dequantized")]


def _dequantize(whole: str, real: str) -> Node:
    inputs = (whole, "gpuscope/scale", "gpuscope/zero")
    return Node(real, "DequantizeLinear", "", inputs, (real,))
