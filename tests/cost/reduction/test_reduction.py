from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_work import dense, median_error, one, run, seconds

from gpuscope.cost.reduction.plan import reduce_plan
from gpuscope.program.types import TensorSpec


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
    latter read half the bytes: 111 and 64.5 us, with what each row's result costs."""

    def taken(name: str, dtype: str) -> float:
        x = dense(98304, 1024, dtype=dtype)
        out = dense(98304, dtype="int64" if name == "argmax" else dtype)
        return seconds(run(name, (x,), (out,), dim=-1))

    assert taken("argmax", "bfloat16") == pytest.approx(taken("argmax", "float32"), rel=0.25)
    assert taken("argmax", "bfloat16") == pytest.approx(133e-6, rel=0.25)
    assert taken("sum", "bfloat16") == pytest.approx(64.5e-6, rel=0.15)
    assert taken("sum", "float32") == pytest.approx(111e-6, rel=0.15)


def test_whole_numbers_are_widened_before_they_are_added() -> None:
    mask = dense(64, 512, dtype="bool")
    cast, total = run("sum", (mask,), (dense(64, dtype="int64"),), dim=-1)
    assert cast.name == "copy_unrolled"
    assert cast.written_bytes == 64 * 512 * 8
    assert total.name == "reduce_sum"
    halves = dense(64, 512, dtype="bfloat16")
    assert len(run("sum", (halves,), (dense(64),), dim=-1)) == 1, "as they are loaded"
    names = [k.name for k in run("cumsum", (mask,), (dense(64, 512, dtype="int64"),), dim=-1)]
    assert names == ["copy_unrolled", "scan_innermost_dim"]


def test_each_result_of_a_row_costs_its_hand_over() -> None:
    """65,536 sums of 64 values: 16.8 us on an H200 from rows in order, 20.4 from rows apart."""
    spec = dense(2, 32, 1024, 64)
    apart = TensorSpec(spec.shape, (2097152, 64, 65536, 1), "float32")
    near, far = (one("sum", (s,), (dense(2, 32, 1024),), hot=True, dim=-1) for s in (spec, apart))
    assert near.duration_s == pytest.approx(16.8e-6, rel=0.15)
    assert far.duration_s == pytest.approx(20.4e-6, rel=0.15)


def test_columns_that_are_read_across_lie_a_line_apart() -> None:
    """Grouped heads' gradients, 8 x 8 x 4 x 512 x 96 summed over the 4: 57.6 us where the last two
    dimensions lie swapped in memory."""
    shape, out = (8, 8, 4, 512, 96), dense(8, 8, 1, 512, 96)
    swapped = TensorSpec(shape, (1572864, 196608, 49152, 1, 512), "float32")
    straight, across = (one("sum", (s,), (out,), dim=(2,)) for s in (dense(*shape), swapped))
    assert across.duration_s > 2 * straight.duration_s
    assert across.duration_s == pytest.approx(57.6e-6, rel=0.25)


def test_results_of_short_columns_cost_their_stores() -> None:
    """15.3 us on an H200, two values a column and their places."""
    x = dense(2, 1191, 736)
    values, places = dense(1191, 736), dense(1191, 736, dtype="int64")
    found = seconds(run("max", (x,), (values, places), dim=0, hot=(True,)))
    assert found == pytest.approx(15.3e-6, rel=0.2)
    assert found > 2 * seconds(run("amax", (x,), (values,), dim=(0,), hot=(True,)))


@pytest.mark.parametrize("name", ["max", "min", "aminmax"])
def test_an_extreme_of_a_whole_tensor_copies_it_where_it_is_not_dense(name: str) -> None:
    shape = (96, 24, 112, 112)
    last = TensorSpec(shape, (301056, 1, 2688, 24), "float32")
    found = {}
    for spec in (last, dense(*shape, dtype="float32")):
        outs = (dense(dtype="float32"),) * (2 if name == "aminmax" else 1)
        found[spec] = run(f"aten::{name}", (spec,), outs)
    copied, plain = found.values()
    assert len(copied) == len(plain) + 1
    # Recorded: 155 us for the copy of 116 MB that an observer for quantisation makes.
    assert copied[0].duration_s == pytest.approx(155e-6, rel=0.2)
    along = run(f"aten::{name}", (last,), (dense(*shape[:3], dtype="float32"),), dim=3)
    assert len(along) <= len(plain)


def test_the_place_of_one_value_is_filled_in() -> None:
    """argmax of a dimension of 1, 125,290 times over: a fill, 0.9 us on an H200."""
    x, out = dense(1, 737, 170), dense(737, 170, dtype="int64")
    (kernel,) = run("argmax", (x,), (out,), hot=True, dim=0)
    assert "fill" in kernel.name
    assert kernel.duration_s == pytest.approx(0.9e-6, rel=0.4)
