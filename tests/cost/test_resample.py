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


def test_few_pixels_in_many_planes_go_one_plane_after_the_other() -> None:
    """[4, 512, 4, 4] to 8 x 8 took 339 us on an H200, [4, 2, 16, 16] to 64 x 64 4.1."""
    many = one("upsample_bilinear2d", (dense(4, 512, 4, 4),), (dense(4, 512, 8, 8),))
    few = one("upsample_bilinear2d", (dense(4, 2, 16, 16),), (dense(4, 2, 64, 64),))
    twice = one("upsample_bilinear2d", (dense(8, 512, 4, 4),), (dense(8, 512, 8, 8),))
    assert abs(many.duration_s / 339e-6 - 1) < 0.15
    assert abs(few.duration_s / 4.1e-6 - 1) < 0.3
    assert 1.9 < twice.duration_s / many.duration_s < 2.1
    same = one("upsample_bilinear2d", (dense(4, 512, 8, 8),), (dense(4, 512, 8, 8),))
    assert same.duration_s < 0.01 * many.duration_s, "a copy"
