from __future__ import annotations

import pytest
from matmul_work import dense, mm, run

from gpuscope.cost.grouped_matmul import grouped_shape
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
    a, b, out = dense(128, 2048), dense(128, 2048, 1536), dense(128, 1536)
    main = run("aten::_grouped_mm", (a, b, ENDS), (out,))[-1]
    weights = 128 * 2048 * 1536 * 2
    assert main.memory_s > 0.6 * main.compute_s  # 3.4 TB/s recorded with 128 experts
    assert 0.5 < weights / main.duration_s / 4.8e12 < 1.0


def test_scaled_groups_run_at_the_8_bit_rate() -> None:
    def grouped(dtype: str) -> float:
        a, b = dense(16384, 4096, dtype=dtype), dense(8, 4096, 4096, dtype=dtype)
        return run("aten::_scaled_grouped_mm", (a, b), (dense(16384, 4096),))[-1].duration_s

    assert 1.3 < grouped("bfloat16") / grouped("float8_e4m3fn") < 2.2
