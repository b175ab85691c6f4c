from __future__ import annotations

from memory_work import dense, median_error, one, run


def test_pooling_reads_the_image_and_writes_values_and_indices() -> None:
    x, out, index = dense(8, 64, 56, 56), dense(8, 64, 28, 28), dense(8, 64, 28, 28, dtype="int64")
    made = one("max_pool2d_with_indices", (x,), (out, index), kernel_size=(3, 3))
    assert made.read_bytes == x.nbytes
    assert made.written_bytes == out.nbytes + index.nbytes


def test_larger_windows_take_longer() -> None:
    x, out = dense(64, 64, 56, 56), dense(64, 64, 28, 28)
    small = one("avg_pool2d", (x,), (out,), kernel_size=(2, 2))
    large = one("avg_pool2d", (x,), (out,), kernel_size=(7, 7))
    assert large.duration_s > 2 * small.duration_s


def test_pooling_to_one_pixel_is_a_mean() -> None:
    x = dense(16, 512, 7, 7)
    (made,) = run("_adaptive_avg_pool2d", (x,), (dense(16, 512, 1, 1),), output_size=(1, 1))
    assert made.name == "reduce_mean"


def test_gradients_of_max_pooling_start_from_zeros() -> None:
    x, out = dense(8, 64, 56, 56), dense(8, 64, 28, 28)
    kernels = run("max_pool2d_with_indices_backward", (out, x, out), (x,), kernel_size=(3, 3))
    assert kernels[0].name.endswith("fill")


def test_recorded_calls() -> None:
    assert median_error("max_pool2d_with_indices", "max_pool2d_with_indices_backward") < 0.15
    assert median_error("upsample_nearest2d", "upsample_nearest2d_backward") < 0.10
