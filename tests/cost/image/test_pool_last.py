from __future__ import annotations

import pytest
from memory_work import run

from gpuscope.program.types import TensorSpec


def _last(*shape: int, dtype: str = "float32") -> TensorSpec:
    n, c, h, w = shape
    return TensorSpec((n, c, h, w), (c * h * w, 1, w * c, c), dtype, "device", -1)


@pytest.mark.parametrize(
    ("x", "side", "kernel", "stride", "dtype", "grid", "block", "us"),
    [
        # Recorded on an H200.
        ((2, 120, 18, 18), 9, 3, 2, "float32", 4, 1024, 24.4),
        ((4, 240, 9, 9), 9, 5, 1, "bfloat16", 16, 1024, 34.1),
        ((1, 72, 13, 13), 13, 3, 1, "float32", 2, 1024, 19.3),
        ((52, 920, 15, 15), 15, 3, 1, "float32", 832, 1024, 148.2),
        ((57, 48, 99, 99), 50, 3, 2, "float32", 1425, 1024, 162.1),
    ],
)
def test_recorded_pools(
    x: tuple[int, ...],
    side: int,
    kernel: int,
    stride: int,
    dtype: str,
    grid: int,
    block: int,
    us: float,
) -> None:
    source, out = _last(*x, dtype=dtype), _last(*x[:2], side, side, dtype=dtype)
    where = _last(*x[:2], side, side, dtype="int64")
    (made,) = run(
        "max_pool2d_with_indices",
        (source,),
        (out, where),
        hot=True,
        kernel_size=(kernel, kernel),
        stride=(stride, stride),
    )
    assert (made.grid, made.block) == (grid, block)
    assert made.duration_s == pytest.approx(us * 1e-6, rel=0.45)


def test_few_pictures_wait_for_a_threads_way() -> None:
    """One picture takes as long as eight: threads go through four groups of channels."""

    def taken(pictures: int, channels: int) -> float:
        x = _last(pictures, channels, 16, 16)
        where = _last(pictures, channels, 16, 16, dtype="int64")
        made = run("max_pool2d_with_indices", (x,), (x, where), kernel_size=(3, 3), stride=(1, 1))
        return made[0].duration_s

    assert taken(8, 128) == pytest.approx(taken(1, 128), rel=0.1)
    assert taken(1, 128) > 1.5 * taken(1, 32)
    assert taken(1024, 128) > 4 * taken(8, 128)
