"""A larger batch: more samples a run, and each waits for all."""

from graph_cases import forecaster, layers

import onnx_models as models
from gpuscope.advice.registry import find


def test_small_runs_gain_and_it_is_made_on_request(tmp_path):
    with forecaster(layers(tmp_path / "m.onnx", 256), batch=1) as made:
        twice, four = (made.forecast([n]) for n in ("onnx-larger-batch", "onnx-larger-batch-4x"))
        # The host sets the pace of one row, and of a few.
        assert 1.5 < twice.speedup <= 2.01
        assert twice.speedup < four.speedup <= 4.01
        assert find("onnx-larger-batch").on_request(made.case)
        assert "--set batch=2" in str(find("onnx-larger-batch").typed(made.case))


def test_a_fixed_batch_is_refused(tmp_path):
    with forecaster(models.attention(tmp_path / "m.onnx"), seq=32) as made:
        assert not made.fit("onnx-larger-batch").applies
