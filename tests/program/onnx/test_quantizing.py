"""Pairs around products: one a tensor, weights as integers, the rest as it was."""

import onnx_models as models
from gpuscope.program.onnx.graph import read
from gpuscope.program.onnx.quantizing import quantizable, quantized


def test_every_product_with_a_weight_gets_integers(tmp_path):
    graph = read(models.mlp(tmp_path / "m.onnx"))
    assert [node.name for node in quantizable(graph)] == ["first", "second"]
    made = quantized(graph)
    kinds = [node.kind for node in made.nodes]
    # x, the first's result, the second's operand and result; two weights are stored as integers.
    assert kinds.count("QuantizeLinear") == 4
    assert kinds.count("DequantizeLinear") == 6
    assert (
        sum(each.dtype == "int8" and len(each.shape) == 2 for each in made.constants.values()) == 2
    )
    assert "w1" not in made.constants
    assert "b1" in made.constants
    assert made.outputs == graph.outputs


def test_attention_without_weights_stays(tmp_path):
    graph = read(models.attention(tmp_path / "m.onnx"))
    assert not quantizable(graph)
    assert [node.kind for node in quantized(graph).nodes] == [node.kind for node in graph.nodes]
