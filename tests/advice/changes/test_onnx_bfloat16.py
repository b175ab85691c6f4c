"""A graph in bfloat16: TensorRT's alone, as fast as float16."""

import pytest
from graph_cases import forecaster, layers


def test_it_is_as_fast_as_float16_in_tensorrt(tmp_path):
    with forecaster(layers(tmp_path / "m.onnx"), engine="tensorrt", batch=2048) as made:
        assert made.fit("onnx-bfloat16").applies
        wide, half = made.forecast(["onnx-bfloat16"]), made.forecast(["onnx-float16"])
        assert wide.speedup == pytest.approx(half.speedup, rel=0.1)


def test_onnx_runtime_and_old_devices_have_none(tmp_path):
    path = layers(tmp_path / "m.onnx", 64)
    with forecaster(path, batch=8) as made:
        assert "--engine tensorrt" in str(made.fit("onnx-bfloat16").why)
    with forecaster(path, on="v100", engine="tensorrt", batch=8) as made:
        assert not made.fit("onnx-bfloat16").applies
