"""TensorRT instead of ONNX Runtime: the same products, fewer launches."""

from graph_cases import forecaster, layers, node

import onnx_models as models


def test_elementwise_nodes_go_into_products(tmp_path):
    with forecaster(layers(tmp_path / "m.onnx", 512), batch=64) as made:
        before, found = made.case.run, made.forecast(["onnx-tensorrt"])
        assert made.fit("onnx-tensorrt").applies
        assert found.run.host_busy_s < 0.8 * before.host_busy_s  # two launches instead of three
        assert found.low < found.speedup < found.high


def test_where_it_fits(tmp_path):
    path = layers(tmp_path / "m.onnx", 64)
    with forecaster(path, engine="tensorrt", batch=8) as made:
        assert not made.fit("onnx-tensorrt").applies
    with forecaster(path, on="mi300x", batch=8) as made:
        assert not made.fit("onnx-tensorrt").relevant
    nodes = [node("Fancy", ["x"], ["y"], domain="my.domain")]
    own = models.model(tmp_path / "own.onnx", nodes, {"x": ["batch", 8]}, {})
    with forecaster(own, batch=8) as made:
        assert "my.domain.Fancy" in str(made.fit("onnx-tensorrt").why)
