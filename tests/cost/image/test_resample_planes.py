from __future__ import annotations

import pytest
from memory_work import dense, run, seconds

from gpuscope.program.types import TensorSpec


def _last(*shape: int, dtype: str = "float32") -> TensorSpec:
    n, c, h, w = shape
    return TensorSpec((n, c, h, w), (c * h * w, 1, w * c, c), dtype, "device", -1)


@pytest.mark.parametrize(
    ("name", "source", "target", "dtype", "us"),
    [
        ("upsample_bicubic2d", (4, 188, 14, 14), (4, 188, 28, 28), "float32", 277.5),
        ("upsample_linear1d", (7, 66, 1529), (7, 66, 3058), "bfloat16", 83.4),
        ("upsample_trilinear3d", (7, 45, 10, 10, 10), (7, 45, 20, 20, 20), "float32", 83.3),
        ("upsample_bicubic2d_backward", (11, 57, 54, 54), (11, 57, 36, 36), "float32", 1815.5),
        ("upsample_linear1d_backward", (7, 66, 3058), (7, 66, 1529), "bfloat16", 1122.5),
        (
            "upsample_trilinear3d_backward",
            (7, 66, 20, 20, 20),
            (7, 66, 10, 10, 10),
            "bfloat16",
            634.7,
        ),
        ("upsample_bicubic2d_backward", (10, 15, 272, 272), (10, 15, 68, 68), "bfloat16", 10819.0),
    ],
)
def test_recorded_calls(
    name: str, source: tuple[int, ...], target: tuple[int, ...], dtype: str, us: float
) -> None:
    made = run(name, (dense(*source, dtype=dtype),), (dense(*target, dtype=dtype),), hot=True)
    assert seconds(made) == pytest.approx(us * 1e-6, rel=0.35)


def test_planes_follow_each_other() -> None:
    def taken(planes: int) -> float:
        x, y = dense(1, planes, 14, 14), dense(1, planes, 28, 28)
        return run("upsample_bicubic2d", (x,), (y,), hot=True)[-1].duration_s

    assert taken(2048) / taken(1024) == pytest.approx(2.0, rel=0.05)


def test_channels_last_reads_far_apart() -> None:
    first, last = (
        seconds(run("upsample_bicubic2d", (of(8, 96, 32, 32),), (of(8, 96, 64, 64),), hot=True))
        for of in (dense, _last)
    )
    assert last > 2.5 * first


def test_swaps_meet_the_more_the_more_is_enlarged() -> None:
    def taken(factor: int, dtype: str) -> float:
        grad, x = dense(1, 8, 8 * factor, 8 * factor, dtype=dtype), dense(1, 8, 8, 8, dtype=dtype)
        return seconds(run("upsample_bicubic2d_backward", (grad,), (x,)))

    assert taken(8, "float16") > 8 * taken(2, "float16")
    assert taken(4, "float16") > 5 * taken(4, "float32")
