"""Rows added by sorted indices, a warp each."""

from __future__ import annotations

import pytest
from memory_work import dense

from gpuscope.cost.indexing.index_sums import index_sums
from gpuscope.cost.registry import Constants, Work
from gpuscope.hardware import calibration_for, device
from gpuscope.program.types import Op


def _us(slots: int, tail: int, count: int, dtype: str = "float32", images: int = 1) -> float:
    target = device("h200")
    work = Work(Op(0, "aten::_index_put_impl_"), target, Constants(calibration_for(target)))
    table = dense(images, slots, tail, dtype=dtype)
    return index_sums(work, table, count, slots, tail, images).duration_s * 1e6


@pytest.mark.parametrize(
    ("slots", "tail", "count", "us"),
    [
        (2265, 832, 131088, 292.8),  # runs of 58, of many blocks
        (34, 128, 270800, 5698.0),  # 34 warps work, each 7,965 rows
        (64, 1, 262144, 411.4),
        (100000, 1, 800000, 148.8),
        (7992, 3072, 7992, 62.1),  # all differ: bytes
        (2048, 2048, 16384, 82.4),
    ],
)
def test_recorded_on_an_h200(slots: int, tail: int, count: int, us: float) -> None:
    assert _us(slots, tail, count) == pytest.approx(us, rel=0.35)


def test_blocks_in_which_no_run_begins_cost_their_start() -> None:
    many, few = _us(1000, 64, 400_000), _us(1000, 64, 200_000)
    assert 1.5 < many / few < 2.5


def test_images_repeat_the_blocks() -> None:
    assert _us(729, 1, 351, images=4096) > 10 * _us(729, 1, 351, images=64)


def test_the_longest_run_is_one_warps_work() -> None:
    assert _us(1, 64, 10_000) == pytest.approx(10_000 * 0.5, rel=0.15)
