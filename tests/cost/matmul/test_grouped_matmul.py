from __future__ import annotations

import pytest
from matmul_work import dense, mm, run, turned

from gpuscope.cost.matmul.grouped import grouped_shape, groups_met
from gpuscope.program.types import TensorSpec

ENDS = TensorSpec((8,), (1,), "int32")


@pytest.mark.parametrize(
    ("a", "b", "sizes", "flops"),
    [
        (dense(1000, 64), dense(8, 64, 32), (125, 32, 64), 2 * 1000 * 64 * 32),
        (dense(64, 1000), dense(1000, 32), (64, 32, 125), 2 * 1000 * 64 * 32),
        (dense(8, 64, 16), dense(16, 1000), (64, 125, 16), 2 * 1000 * 64 * 16),
        (dense(8, 64, 16), dense(8, 16, 32), (64, 32, 16), 2 * 8 * 64 * 16 * 32),
    ],
)
def test_groups_are_equal_and_flops_are_those_of_all_tokens(
    a: TensorSpec, b: TensorSpec, sizes: tuple[int, int, int], flops: int
) -> None:
    shape = grouped_shape(a, b, 8)
    assert (shape.m, shape.n, shape.k) == sizes
    assert shape.flops == flops


def test_one_launch_covers_all_groups() -> None:
    a, b, out = dense(16384, 2048), dense(8, 2048, 4096), dense(16384, 4096)
    kernels = run("aten::_grouped_mm", (a, b, ENDS), (out,))
    assert kernels[0].name.startswith("prepare")
    main = kernels[-1]
    assert main.flops == 2 * 16384 * 2048 * 4096
    assert "8 groups" in main.note
    # As much work as one product of all tokens, at about its speed.
    assert main.duration_s == pytest.approx(mm(16384, 4096, 2048).duration_s, rel=0.3)


def test_many_small_groups_are_bound_by_reading_the_experts() -> None:
    a, b, out = dense(512, 2048), dense(128, 2048, 1536), dense(512, 1536)
    main = run("aten::_grouped_mm", (a, b, ENDS), (out,))[-1]
    weights = 128 * 2048 * 1536 * 2
    assert main.memory_s > 0.6 * main.compute_s  # 3.4 TB/s recorded with 128 experts
    assert 0.5 < weights / main.duration_s / 4.8e12 < 1.0


@pytest.mark.parametrize(
    ("groups", "rows", "n", "k", "measured_s"),
    [
        (12, 1332, 1176, 1928, 145.7e-6),
        (97, 48, 7424, 640, 338.9e-6),
        (76, 88, 1408, 1216, 92.5e-6),
        (256, 16, 4096, 2048, 1267e-6),
    ],
)
def test_recorded_groups(groups: int, rows: int, n: int, k: int, measured_s: float) -> None:
    """Even groups on an H200: hundreds of tiles, and experts read for a few rows each."""
    a, b, out = dense(groups * rows, k), dense(groups, k, n), dense(groups * rows, n)
    ends = TensorSpec((groups,), (1,), "int32")
    main = run("aten::_grouped_mm", (a, b, ends), (out,), hot=groups * k * n < 16e6)[-1]
    assert main.duration_s == pytest.approx(measured_s, rel=0.3)


def test_gradients_of_experts_are_as_deep_as_their_rows() -> None:
    """41 groups of 1,492 rows, 4,096 x 384 each: 366 us on an H200."""
    a, b = turned(dense(41 * 1492, 4096)), dense(41 * 1492, 384)
    ends = TensorSpec((41,), (1,), "int32")
    main = run("aten::_grouped_mm", (a, b, ends), (dense(41, 4096, 384),))[-1]
    assert main.flops == 2 * 41 * 1492 * 4096 * 384
    assert main.duration_s == pytest.approx(366e-6, rel=0.2)


def test_few_rows_leave_experts_unread() -> None:
    """Eight rows meet fewer than eight of 128 experts; 16 rows an expert meet all."""
    assert groups_met(8, 128) == pytest.approx(8, rel=0.05)
    assert groups_met(8, 128) < 8
    assert groups_met(2048, 128) == pytest.approx(128, rel=1e-4)
    ends = TensorSpec((128,), (1,), "int32")

    def taken_s(rows: int) -> float:
        inputs = dense(rows, 2048), dense(128, 2048, 1536), ends
        return run("aten::_grouped_mm", inputs, (dense(rows, 1536),))[-1].duration_s

    assert taken_s(8) < 0.2 * taken_s(1024)


def test_scaled_groups_run_at_the_8_bit_rate() -> None:
    def grouped(dtype: str) -> float:
        a, b = dense(16384, 4096, dtype=dtype), dense(8, 4096, 4096, dtype=dtype)
        return run("aten::_scaled_grouped_mm", (a, b), (dense(16384, 4096),))[-1].duration_s

    assert 1.3 < grouped("bfloat16") / grouped("float8_e4m3fn") < 2.2
