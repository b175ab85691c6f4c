"""Attention as one kernel: the pattern is found, its products and softmax go."""

from graph_cases import forecaster, layers

import onnx_models as models


def test_three_kernels_become_one(tmp_path):
    with forecaster(models.attention(tmp_path / "m.onnx"), seq=512) as made:
        assert made.fit("onnx-fused-attention").applies
        fused = made.forecast(["onnx-fused-attention"]).run.program
        kinds = [op.name.rpartition("::")[2] for op in fused.ops]
        assert "bmm" not in kinds
        assert "_softmax" not in kinds
        assert any("attention" in kind for kind in kinds)


def test_where_there_is_none_or_the_engine_does_it(tmp_path):
    with forecaster(layers(tmp_path / "a.onnx", 64), batch=8) as made:
        assert not made.fit("onnx-fused-attention").relevant
    path = models.attention(tmp_path / "m.onnx")
    with forecaster(path, engine="tensorrt", seq=64) as made:
        assert not made.fit("onnx-fused-attention").applies
