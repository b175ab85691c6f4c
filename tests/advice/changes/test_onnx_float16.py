"""A graph in float16: the same products on halves, as the converted file has them."""

import onnx
import pytest
from graph_cases import forecaster, layers

import gpuscope as gs
from gpuscope.advice.forecast.forecaster import Forecaster
from gpuscope.advice.registry import find
from gpuscope.capturing import capture

PRODUCTS = ("aten::mm", "aten::addmm")


def _products(program):
    return [
        [(spec.shape, spec.dtype) for spec in (*op.inputs, *op.outputs)]
        for op in program.ops
        if op.name in PRODUCTS
    ]


def test_tensor_cores_multiply_halves_twice_as_fast_as_tf32(tmp_path):
    with forecaster(layers(tmp_path / "m.onnx"), batch=4096) as made:
        found = made.forecast(["onnx-float16"])
        assert made.fit("onnx-float16").applies
        assert 1.5 < found.speedup < 2.5
        assert found.peak_memory_bytes < 0.6 * made.case.run.peak_memory_bytes
        assert "convert_float_to_float16" in str(find("onnx-float16").typed(made.case))


def test_the_converted_file_has_the_same_products(tmp_path):
    float16 = pytest.importorskip("onnxruntime.transformers.float16")
    path, half = layers(tmp_path / "m.onnx", 256), tmp_path / "half.onnx"
    onnx.save(float16.convert_float_to_float16(onnx.load(path), keep_io_types=True), half)
    axes = (("batch", 8),)
    asked = capture(str(path), options=gs.WorkloadOptions(axes=axes, dtype="float16"))
    converted = capture(str(half), options=gs.WorkloadOptions(axes=axes))
    assert _products(asked) == _products(converted)
    assert {dtype for product in _products(asked) for _, dtype in product} == {"float16"}


def test_where_it_fits(tmp_path):
    path = layers(tmp_path / "m.onnx", 64)
    with forecaster(path, batch=8) as made:
        case = made.case
    options = gs.WorkloadOptions(axes=(("batch", 8),), dtype="float16")
    with Forecaster(str(path), options=options) as halved:
        assert not halved.fit("onnx-float16").applies
    assert find("onnx-float16").fits(case).applies
