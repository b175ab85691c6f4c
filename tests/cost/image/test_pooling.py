"""Pools, forward and backward."""

from __future__ import annotations

import pytest
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


def test_a_window_ends_with_the_image() -> None:
    x, out = dense(1, 2560, 18, 18), dense(1, 2560, 1, 1)
    whole = one("avg_pool2d", (x,), (out,), kernel_size=(18, 18), hot=True)
    beyond = one("avg_pool2d", (x,), (out,), kernel_size=(2560, 2560), hot=True)
    assert beyond.duration_s == whole.duration_s
    assert beyond.duration_s == pytest.approx(71e-6, rel=0.2)  # recorded on an H200


def test_gradients_of_mean_pooling_read_no_image() -> None:
    x, out = dense(8, 64, 56, 56), dense(8, 64, 28, 28)
    made = one("avg_pool2d_backward", (out, x), (x,), kernel_size=(2, 2))
    assert made.read_bytes == out.nbytes


def test_most_of_a_thread_is_finding_out_where_it_is() -> None:
    x, half, third = dense(64, 64, 54, 54), dense(64, 64, 27, 27), dense(64, 64, 18, 18)
    two = one("avg_pool2d_backward", (half, x), (x,), kernel_size=(2, 2))
    three = one("avg_pool2d_backward", (third, x), (x,), kernel_size=(3, 3))
    assert three.duration_s == pytest.approx(two.duration_s, rel=0.05)


def test_planes_that_a_block_walks() -> None:
    x, out = dense(64, 512, 14, 14), dense(64, 512, 7, 7)
    made = one("_adaptive_avg_pool2d", (x,), (out,), output_size=(7, 7))
    back = one("_adaptive_avg_pool2d_backward", (out, x), (x,))
    assert made.grid == back.grid == 64 * 512
