from __future__ import annotations

import pytest
from memory_work import dense, median_error, one, run, seconds

from gpuscope.program.types import TensorSpec


def layer_norm(rows: int, columns: int, dtype: str = "float32") -> float:
    x, w, stat = dense(rows, columns, dtype=dtype), dense(columns), dense(rows, 1)
    kernels = run("native_layer_norm", (x, w, w), (x, stat, stat), normalized_shape=(columns,))
    return seconds(kernels)


def test_forward_reads_and_writes_the_rows_once() -> None:
    x, w, stat = dense(8192, 1024, at=0), dense(1024, at=1), dense(8192, 1, at=2)
    made = one(
        "native_layer_norm",
        (x, w, w),
        (dense(8192, 1024, at=3), stat, stat),
        normalized_shape=(1024,),
    )
    size = 8192 * 1024 * 4
    assert made.least_bytes == pytest.approx(2 * size + 4096 + 2 * 8192 * 4)
    assert made.grid == 8192


def test_small_rows_are_not_free() -> None:
    """A row costs its block whatever its length: twice as many rows, twice the time."""
    assert layer_norm(200_000, 64) / layer_norm(100_000, 64) == pytest.approx(2.0, rel=0.1)
    assert layer_norm(100_000, 64) > 1.5 * 100_000 * 64 * 8 / 4.8e12


def test_rms_norm_is_cheaper_than_layer_norm() -> None:
    x, w, stat = dense(98304, 128), dense(128), dense(98304, 1)
    rms = run("_fused_rms_norm", (x, w), (x, stat), normalized_shape=(128,))
    assert seconds(rms) < layer_norm(98304, 128)


def test_backward_has_a_kernel_for_the_input_and_one_for_the_weights() -> None:
    x, w, stat = dense(8192, 768), dense(768), dense(8192, 1)
    inputs = (x, x, stat, stat, w, w)
    both = run("native_layer_norm_backward", inputs, (x, w, w), normalized_shape=(768,))
    assert [k.name for k in both] == ["layer_norm_grad_input", "layer_norm_grad_weight"]
    only = run("native_layer_norm_backward", inputs, (x,), normalized_shape=(768,))
    assert len(only) == 1


def test_few_columns_leave_the_weight_gradient_to_few_blocks() -> None:
    x, w, stat = dense(8192, 768), dense(768), dense(8192, 1)
    weight = run(
        "native_layer_norm_backward", (x, x, stat, stat, w, w), (x, w, w), normalized_shape=(768,)
    )[1]
    assert weight.grid == 24
    assert weight.limiter == "latency"


def batch_norm(dtype: str, channels: int, last: bool = False, training: bool = True) -> float:
    n, hw = 64, 56
    if last:
        x = TensorSpec(
            (n, channels, hw, hw), (hw * hw * channels, 1, hw * channels, channels), dtype
        )
    else:
        x = dense(n, channels, hw, hw, dtype=dtype)
    w = dense(channels)
    return seconds(run("native_batch_norm", (x, w, w, w, w), (x, w, w), training=training))


def test_few_channels_cannot_fill_the_device() -> None:
    """A block walks one channel, so 64 channels take about as long as 128."""
    assert batch_norm("bfloat16", 64) > 0.6 * batch_norm("bfloat16", 128)


def test_channels_last_spreads_over_the_device() -> None:
    assert batch_norm("bfloat16", 64, last=True) < 0.6 * batch_norm("bfloat16", 64)


def test_evaluation_skips_the_statistics() -> None:
    assert batch_norm("bfloat16", 64, training=False) < 0.5 * batch_norm("bfloat16", 64)


def test_which_kernels_run_depends_on_the_types() -> None:
    w = dense(64)
    for dtype, count in (("float32", 1), ("bfloat16", 3)):
        x = dense(16, 64, 56, 56, dtype=dtype)
        made = run("native_batch_norm", (x, w, w, w, w), (x, w, w), training=True)
        assert len(made) == count


def test_recorded_calls() -> None:
    assert median_error("native_layer_norm", "_fused_rms_norm", "_fused_rms_norm_backward") < 0.15
    assert (
        median_error(
            "native_batch_norm",
            "native_batch_norm_backward",
            "native_group_norm",
            "native_group_norm_backward",
        )
        < 0.35
    )


def test_rows_that_are_not_dense_are_copied_first() -> None:
    turned = TensorSpec((16, 256, 1152), (294912, 1, 256), "float32")
    w, stat, out = dense(1152), dense(16, 256, 1), dense(16, 256, 1152)
    kernels = run("native_layer_norm", (turned, w, w), (out, stat, stat), normalized_shape=(1152,))
    assert [k.kind for k in kernels] == ["copy", "normalization"]


def test_rms_norm_has_a_model_under_the_name_that_a_capture_gives_it() -> None:
    from gpuscope.cost.registry import model_for

    for direction in ("", "_backward"):
        captured = model_for(f"gpuscope::rms_norm{direction}")
        assert captured is not None
        assert captured is model_for(f"aten::_fused_rms_norm{direction}")


def test_a_weight_norm_of_the_last_dimension_goes_row_by_row() -> None:
    """wav2vec's position encoding took 251 us on an H200, its gradient 378."""
    weight, norm = dense(768, 48, 128), dense(1, 1, 128)
    forward = one("_weight_norm_interface", (weight, norm), (weight, norm), dim=2)
    backward = one(
        "_weight_norm_interface_backward", (weight, weight, norm, norm), (weight, norm), dim=2
    )
    assert abs(forward.duration_s / 251e-6 - 1) < 0.1
    assert abs(backward.duration_s / 378e-6 - 1) < 0.1
    first = one("_weight_norm_interface", (weight, dense(768)), (weight, dense(768)), dim=0)
    assert first.duration_s < 0.2 * forward.duration_s
