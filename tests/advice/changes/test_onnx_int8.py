"""Products of integers: what is predicted is what a static quantization makes of the file."""

import numpy as np
import pytest
from graph_cases import forecaster, layers

import gpuscope as gs
import onnx_models as models
from gpuscope.advice.registry import find
from gpuscope.capturing import capture_resolved
from gpuscope.program.workload import resolve


def _whole(program):
    """Shapes that integers are multiplied in."""
    return [[spec.shape for spec in op.inputs] for op in program.ops if op.name == "aten::_int_mm"]


def test_integers_are_multiplied_faster_than_halves(tmp_path):
    with forecaster(layers(tmp_path / "m.onnx"), batch=4096) as made:
        whole = made.forecast(["onnx-int8"])
        assert made.fit("onnx-int8").applies
        assert whole.speedup > made.forecast(["onnx-float16", "onnx-tensorrt"]).speedup


def test_one_kernel_makes_integers_of_a_products_sums(tmp_path):
    """Conversions are elementwise: TensorRT makes one kernel of them and the ReLU between."""
    with forecaster(layers(tmp_path / "m.onnx"), batch=4096) as made:
        names = [op.name for op in made.forecast(["onnx-int8"]).run.program.ops if not op.view]
    first, last = (i for i, name in enumerate(names) if name == "aten::_int_mm")
    assert names[first + 1 : last] == ["gpuscope::fused"]


def test_the_quantized_file_has_the_same_products(tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization")
    path, small = layers(tmp_path / "m.onnx", 128), tmp_path / "int8.onnx"

    class Samples(quantization.CalibrationDataReader):
        left = 2

        def get_next(self):
            self.left -= 1
            return {"x": np.ones((8, 128), np.float32)} if self.left >= 0 else None

    extra = {"ActivationSymmetric": True, "WeightSymmetric": True}
    quantization.quantize_static(str(path), str(small), Samples(), extra_options=extra)
    options = gs.WorkloadOptions(axes=(("batch", 8),), engine="tensorrt")
    target = gs.parse_target("h200")
    really = capture_resolved(resolve(str(small), options), target)
    with forecaster(path, batch=8) as made:
        asked = made.forecast(["onnx-int8"]).run.program
    assert _whole(asked) == _whole(really) == [[(8, 128), (128, 128)]] * 2


def test_where_it_fits(tmp_path):
    with forecaster(models.attention(tmp_path / "m.onnx"), seq=8) as made:
        assert not made.fit("onnx-int8").applies  # its products have no weights
    assert find("onnx-int8").numerics == "int8"
