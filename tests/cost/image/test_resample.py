from __future__ import annotations

import pytest
from memory_work import dense, median_error, one, run

from gpuscope.program.types import TensorSpec


def test_recorded_calls() -> None:
    assert median_error("upsample_nearest2d", "upsample_nearest2d_backward") < 0.10


def _enlarged(planes: int, side: int, out: int, hot: bool = True) -> float:
    x, y = dense(4, planes, side, side), dense(4, planes, out, out)
    return one("upsample_bilinear2d", (x,), (y,), hot=hot).duration_s


def test_few_pixels_in_many_planes_go_one_plane_after_the_other() -> None:
    """Recorded on an H200, the data in the L2."""
    assert abs(_enlarged(512, 4, 8) / 339e-6 - 1) < 0.15
    assert abs(_enlarged(2, 16, 64) / 4.1e-6 - 1) < 0.3
    assert 1.9 < _enlarged(1024, 4, 8) / _enlarged(512, 4, 8) < 2.1
    same = one("upsample_bilinear2d", (dense(4, 512, 8, 8),), (dense(4, 512, 8, 8),))
    assert same.duration_s < 0.01 * _enlarged(512, 4, 8), "a copy"


def test_planes_of_one_pixel_share_a_sector() -> None:
    """[4, 512, 1, 1] took 104 us, [4, 512, 2, 2] 198."""
    assert abs(_enlarged(512, 1, 8) / 104e-6 - 1) < 0.15
    assert abs(_enlarged(512, 2, 8) / 198e-6 - 1) < 0.15


def test_what_outgrows_the_cache_waits_for_memory_at_each_plane() -> None:
    assert _enlarged(1024, 8, 16, hot=False) > 1.4 * _enlarged(1024, 8, 16)
    assert _enlarged(1024, 96, 192) == pytest.approx(_enlarged(1024, 96, 192, hot=False), rel=0.1)


def test_windows_are_written_out_image_by_image() -> None:
    """Recorded on an H200: 47.4 us for each of 128 pictures, 2.9 for each of 32 small ones."""
    x = dense(128, 3, 224, 224)
    made = run("im2col", (x,), (dense(128, 768, 196),), kernel_size=(16, 16))
    assert len(made) == 128
    assert made[0].duration_s == pytest.approx(47.4e-6, rel=0.2)
    small = run("im2col", (dense(32, 128, 32, 32),), (dense(32, 512, 256),), hot=True)
    assert len(small) == 32
    assert small[0].duration_s == pytest.approx(2.9e-6, rel=0.3)


@pytest.mark.parametrize(
    ("kernel", "stride", "side", "columns", "images", "us"),
    [
        (2, 1, 168, 32, 15, 149.4),
        (3, 1, 63, 2304, 4, 331.1),
        (4, 2, 45, 1664, 56, 546.9),
        (7, 2, 111, 5978, 2, 529.5),
        (8, 8, 107, 1152, 33, 170.6),
    ],
)
def test_windows_are_added_pixel_by_pixel(
    kernel: int, stride: int, side: int, columns: int, images: int, us: float
) -> None:
    """Recorded on an H200."""
    places = ((side - kernel) // stride + 1) ** 2
    made = one(
        "col2im",
        (dense(images, columns, places),),
        (dense(images, columns // kernel**2, side, side),),
        hot=True,
        kernel_size=(kernel, kernel),
        stride=(stride, stride),
    )
    assert made.duration_s == pytest.approx(us * 1e-6, rel=0.25)


def test_pads_take_their_index_arithmetic() -> None:
    """Recorded on an H200: 58.0 us, whatever the type; what lies channels last is copied first."""
    x, out = dense(1, 344, 163, 163), dense(1, 344, 166, 166)
    made = one("reflection_pad2d", (x,), (out,), hot=True, padding=(2, 1, 1, 2))
    assert made.duration_s == pytest.approx(58.0e-6, rel=0.15)
    last = TensorSpec((32, 128, 56, 56), (401408, 1, 7168, 128), "float32", "device", -1)
    names = [k.name for k in run("reflection_pad2d", (last,), (dense(32, 128, 58, 58),))]
    assert names == ["copy_strided", "reflection_pad2d"]
    names = [k.name for k in run("reflection_pad2d_backward", (out, x), (x,))]
    assert names == ["elementwise_vectorized_fill", "reflection_pad2d_backward"]
