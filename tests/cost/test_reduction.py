from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_work import dense, median_error, one, run, seconds

from gpuscope.cost.reduction import reduce_plan, scan_threads


@pytest.mark.parametrize(
    ("outputs", "length", "innermost", "itemsize", "grid", "threads"),
    [
        # (columns summed) bf16 [16384, 1024] over rows: 8 x 256 blocks of 32 x 4.
        (1024, 16384, False, 2, 8 * 256, 128),
        (1600, 4096, False, 2, 13 * 64, 128),
        (768, 128, False, 4, 6, 128),
        (50257, 512, False, 4, 1571, 512),
        # rows: [4096, 4096] 256 blocks of 32 x 16.
        (4096, 4096, True, 4, 256, 512),
        (16, 8192, True, 4, 16, 512),
        (12288, 128, True, 2, 384, 512),
        # everything: 528 = 4 x 132 blocks.
        (1, 8192 * 4096, True, 4, 528, 512),
        (1, 4096 * 128256, True, 2, 4008, 512),
        (1, 640, True, 2, 1, 64),
    ],
)
def test_plans_are_those_recorded_on_an_h200(
    outputs: int, length: int, innermost: bool, itemsize: int, grid: int, threads: int
) -> None:
    plan = reduce_plan(outputs, length, innermost, 132, 2048, itemsize)
    assert (plan.grid, plan.threads) == (grid, threads)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.booleans())
def test_a_plan_covers_all_values(outputs: int, length: int, innermost: bool) -> None:
    plan = reduce_plan(outputs, length, innermost, 132, 2048)
    worked = plan.grid * plan.threads * plan.per_thread * (1 if innermost else plan.vector)
    assert worked >= outputs * length
    assert 1 <= plan.threads <= 512


def test_blocks_that_share_an_output_clear_their_semaphores_first() -> None:
    kernels = run("sum", (dense(8192, 4096),), (dense(),))
    assert [k.kind for k in kernels] == ["memset", "reduction"]
    assert len(run("sum", (dense(8192, 4096),), (dense(8192),), dim=(-1,))) == 1


def test_large_sums_read_once_at_bandwidth() -> None:
    made = run("sum", (dense(2**30),), (dense(),))[-1]
    assert made.read_bytes == 2**32
    assert 2**32 / made.duration_s > 0.8 * 4.8e12
    assert made.limiter == "memory"


def test_one_long_row_is_latency() -> None:
    made = one("sum", (dense(1, 128256),), (dense(1),), dim=(-1,))
    assert made.limiter == "latency"
    assert made.duration_s > 5 * 128256 * 4 / 4.8e12


def test_negative_and_missing_dims() -> None:
    x = dense(512, 1024)
    assert run("mean", (x,), (dense(512),), dim=(-1,)) == run("mean", (x,), (dense(512),), dim=(1,))
    everything = run("mean", (x,), (dense(),))
    assert everything == run("mean", (x,), (dense(),), dim=(0, 1))


def test_elementwise_maximum_is_not_a_reduction() -> None:
    made = one("max", (dense(1024), dense(1024)), (dense(1024),))
    assert made.kind == "pointwise"


@pytest.mark.parametrize(
    ("rows", "length", "threads"),
    [
        (1024, 768, 16),
        (128, 768, 64),
        (16, 8192, 512),
        (1024, 4096, 32),
        (98304, 128, 512),
        (12288, 128, 16),
        (512, 50257, 256),
    ],
)
def test_scan_rows_are_shared_as_recorded(rows: int, length: int, threads: int) -> None:
    assert scan_threads(rows, length) == threads


def test_empty_input_launches_nothing() -> None:
    assert run("sum", (dense(0, 8),), (dense(8),), dim=(0,)) == ()


def test_longer_rows_take_longer() -> None:
    # Below 8,192 values a row is left to one warp, which can be slower than a longer row's block.
    times = [
        seconds(run("sum", (dense(64, n),), (dense(64),), dim=(1,)))
        for n in (8192, 65536, 524288, 2**22)
    ]
    assert times == sorted(times)


def test_recorded_calls() -> None:
    assert median_error("sum", "mean", "amax", "linalg_vector_norm") < 0.20
    assert median_error("cumsum", "var", "argmax") < 0.35


def test_where_values_are_compared_one_by_one_their_width_does_not_matter() -> None:
    """98,304 rows of 1,024: 130 us in float32, 133 us in bfloat16 on an H200; sums of the
    latter read half the bytes and take half as long."""

    def taken(name: str, dtype: str) -> float:
        x = dense(98304, 1024, dtype=dtype)
        return seconds(run(name, (x,), (dense(98304, dtype="int64"),), dim=-1))

    assert taken("argmax", "bfloat16") == pytest.approx(taken("argmax", "float32"), rel=0.25)
    assert taken("argmax", "bfloat16") == pytest.approx(133e-6, rel=0.25)
    assert taken("sum", "bfloat16") < 0.6 * taken("sum", "float32")
