from __future__ import annotations

import pytest
from memory_work import dense, run

from gpuscope.cost.image.resample_gradient import warp_sectors
from gpuscope.program.types import TensorSpec


def _last(*shape: int, dtype: str = "float32") -> TensorSpec:
    n, c, h, w = shape
    return TensorSpec((n, c, h, w), (c * h * w, 1, w * c, c), dtype, "device", -1)


def _sums(grad: TensorSpec, x: TensorSpec) -> float:
    """Seconds of the additions alone."""
    zeros, sums = run("upsample_bilinear2d_backward", (grad,), (x,), hot=True)
    assert zeros.name.endswith("fill")
    return sums.duration_s


def test_neighbouring_channels_are_four_full_turns_of_four_sectors() -> None:
    assert warp_sectors((1, 64, 16, 16), (32, 32), True, False, 4) == 4 * 4
    # Even and odd places of 16-bit values go apart, each 16 words: two sectors.
    assert warp_sectors((1, 64, 16, 16), (32, 32), True, False, 2) == 4 * 2 * 2


def test_pixels_that_meet_take_turns() -> None:
    """Eight neighbours of a row enlarged eight times add to the same pixel."""
    apart = warp_sectors((1, 1, 256, 256), (256, 256), False, True, 4)
    meeting = warp_sectors((1, 1, 32, 32), (256, 256), False, True, 4)
    assert apart == pytest.approx(18.0, rel=0.05), "the right neighbours lie in five sectors"
    assert meeting > 2.5 * apart


@pytest.mark.parametrize(
    ("shape", "enlarged", "last", "dtype", "us"),
    [
        ((16, 256, 48, 48), 96, True, "float32", 324.0),
        ((16, 256, 48, 48), 96, True, "bfloat16", 458.0),
        ((16, 256, 48, 48), 96, False, "float32", 333.9),
        ((4, 128, 96, 96), 192, False, "bfloat16", 369.2),
        ((16, 19, 128, 128), 512, False, "float32", 1129.0),
        ((16, 19, 128, 128), 512, True, "bfloat16", 1901.4),
        ((8, 3, 256, 256), 224, False, "float32", 10.5),
    ],
)
def test_recorded_gradients(
    shape: tuple[int, ...], enlarged: int, last: bool, dtype: str, us: float
) -> None:
    """H200, micro/cases.jsonl.gz."""
    made = _last if last else dense
    grad = made(*shape[:2], enlarged, enlarged, dtype=dtype)
    assert _sums(grad, made(*shape, dtype=dtype)) == pytest.approx(us * 1e-6, rel=0.2)


def test_nothing_enlarged_is_a_copy() -> None:
    x = dense(2, 8, 16, 16)
    assert [k.name for k in run("upsample_bilinear2d_backward", (x,), (x,))][1] == "memcpy_d2d"


@pytest.mark.parametrize(
    ("shape", "enlarged", "us"),
    [((19, 138, 16, 16), 128, 97.1), ((9, 16, 6, 6), 96, 201.0), ((10, 87, 141, 141), 212, 108.9)],
)
def test_the_nearest_gathers_copy_by_copy(shape: tuple[int, ...], enlarged: int, us: float) -> None:
    """Recorded on an H200: few pixels of many copies wait for one load after the other."""
    grad = dense(*shape[:2], enlarged, enlarged, dtype="bfloat16")
    made = run("upsample_nearest2d_backward", (grad,), (dense(*shape, dtype="bfloat16"),), hot=True)
    assert made[-1].duration_s == pytest.approx(us * 1e-6, rel=0.35)


def test_pictures_enlarged_sixteen_times_meet_in_few_sectors() -> None:
    """5.8 ms for 8 million values on an H200, 12 times as long as by turns of a warp alone."""
    grad, x = dense(2, 55, 272, 272, dtype="bfloat16"), dense(2, 55, 17, 17, dtype="bfloat16")
    assert _sums(grad, x) == pytest.approx(5.8e-3, rel=0.25)


def test_a_small_picture_does_not_wait_for_idle_multiprocessors() -> None:
    """One block of [2, 2, 16, 16]: 9.6 us with its zeros."""
    grad, x = _last(2, 2, 16, 16, dtype="float16"), _last(2, 2, 4, 4, dtype="float16")
    assert _sums(grad, x) < 15e-6
