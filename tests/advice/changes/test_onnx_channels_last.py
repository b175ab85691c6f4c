"""NHWC: every convolution reads it, and halves on tensor cores need no turning."""

from graph_cases import forecaster, images, layers

from gpuscope.advice.changes.channels_last import layouts


def test_every_convolution_reads_it(tmp_path):
    with forecaster(images(tmp_path / "m.onnx"), batch=8) as made:
        assert layouts(made.case.program) == (2, 0)
        assert made.fit("onnx-channels-last").applies
        turned = made.forecast(["onnx-channels-last"]).run.program
        assert layouts(turned) == (0, 2)


def test_halves_gain_by_it(tmp_path):
    with forecaster(images(tmp_path / "m.onnx", 256), batch=32) as made:
        half = made.forecast(["onnx-float16"])
        both = made.forecast(["onnx-float16", "onnx-channels-last"])
        assert both.speedup > half.speedup


def test_where_it_fits(tmp_path):
    with forecaster(layers(tmp_path / "a.onnx", 64), batch=8) as made:
        assert not made.fit("onnx-channels-last").relevant
    with forecaster(images(tmp_path / "m.onnx"), engine="tensorrt", batch=8) as made:
        assert not made.fit("onnx-channels-last").applies
