from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_work import dense, median_error, on_host, one, run, seconds

from gpuscope.cost.pointwise.elementwise import iteration, merged_dims
from gpuscope.cost.registry import known_operators
from gpuscope.program.types import TensorSpec

N = 2**24


def test_bytes_of_an_addition_by_hand() -> None:
    made = one("add", (dense(N, at=0), dense(N, at=1)), (dense(N, at=2),))
    assert (made.read_bytes, made.written_bytes, made.least_bytes) == (8 * N, 4 * N, 12 * N)
    assert made.limiter == "memory"
    assert made.kind == "pointwise"


def test_the_same_tensor_twice_is_read_once() -> None:
    x = dense(N, at=0)
    assert one("mul", (x, x), (dense(N, at=1),)).read_bytes == 4 * N


def test_in_place_reads_and_writes_the_same_memory() -> None:
    x = dense(N, at=0)
    made = one("add_", (x, dense(N, at=1)), (x,))
    assert (made.read_bytes, made.written_bytes) == (8 * N, 4 * N)


def test_a_broadcast_row_counts_once_and_needs_offsets() -> None:
    x, row = dense(4096, 4096, at=0), dense(4096, at=1)
    made = one("add", (x, row), (dense(4096, 4096, at=2),))
    assert made.read_bytes == (4096 * 4096 + 4096) * 4
    assert "strided" in made.name
    same = one("add", (x, dense(4096, 4096, at=1)), (dense(4096, 4096, at=2),))
    assert made.duration_s > same.duration_s


def test_a_number_on_the_host_costs_no_bytes() -> None:
    made = one("mul", (dense(N, at=0), on_host(dense())), (dense(N, at=1),))
    assert made.read_bytes == 4 * N
    assert "vectorized" in made.name


def test_mixed_types_go_one_element_at_a_time() -> None:
    wide, narrow = dense(N, at=0), dense(N, dtype="bfloat16", at=1)
    mixed = one("mul", (wide, narrow), (dense(N, at=2),))
    plain = one("mul", (wide, dense(N, at=1)), (dense(N, at=2),))
    assert "unrolled" in mixed.name
    assert mixed.limiter == "issue"
    assert mixed.duration_s > 1.3 * plain.duration_s


def test_comparisons_write_bytes_without_a_conversion() -> None:
    made = one("gt", (dense(N, at=0),), (dense(N, dtype="bool", at=1),))
    assert "vectorized" in made.name
    assert made.written_bytes == N


def test_empty_tensors_launch_nothing() -> None:
    assert run("add", (dense(0), dense(0)), (dense(0),)) == ()


def test_tiny_tensors_take_about_the_floor() -> None:
    assert 0.8e-6 < one("add", (dense(8), dense(8)), (dense(8),)).duration_s < 2.5e-6


def test_masked_fill_out_of_place_clones_first() -> None:
    x, mask = dense(N, at=0), dense(N, dtype="bool", at=1)
    kernels = run("masked_fill", (x, mask), (dense(N, at=2),))
    assert [k.kind for k in kernels] == ["copy", "pointwise"]
    assert len(run("masked_fill_", (x, mask), (x,))) == 1


def test_only_uncommon_powers_are_dear() -> None:
    x, out = dense(N, dtype="bfloat16"), dense(N, dtype="bfloat16")
    square = one("pow", (x,), (out,), exponent=2)
    odd = one("pow", (x,), (out,), exponent=2.7)
    assert odd.compute_s > square.compute_s


def test_channels_last_everywhere_is_one_dense_run() -> None:
    image = TensorSpec((8, 64, 32, 32), (65536, 1, 2048, 64), "float32")
    assert iteration((image, image), image).style == "vectorized"
    assert merged_dims((dense(8, 64, 32, 32),), image) > 1


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_dense_tensors_always_merge_to_one_dimension(shape: list[int]) -> None:
    spec = dense(*shape)
    assert merged_dims((spec,), spec) == 1


@pytest.mark.parametrize("name", ["add", "exp", "gelu", "lgamma", "relu", "logical_not", "eq"])
def test_both_forms_are_known(name: str) -> None:
    assert {f"aten::{name}", f"aten::{name}_"} <= set(known_operators())


def test_recorded_calls() -> None:
    assert (
        median_error(
            "add", "mul", "add_", "relu", "neg", "where", "threshold_backward", "addcmul", "lerp_"
        )
        < 0.10
    )
    assert median_error("gelu", "silu", "tanh", "exp", "div", "cos", "gelu_backward") < 0.10


def test_time_grows_with_size() -> None:
    times = [seconds(run("gelu", (dense(n),), (dense(n),))) for n in (10**k for k in range(2, 10))]
    assert times == sorted(times)


def test_values_of_the_host_go_over_before_a_choice() -> None:
    mask, number = dense(512, 512, dtype="bool"), on_host(dense())
    names = [k.name for k in run("where", (mask, number, number), (dense(512, 512),), hot=True)]
    assert names == ["memcpy_h2d_pageable"] * 2 + ["elementwise_strided_where"]
    x = dense(512, 512)
    assert len(run("where", (mask, x, x), (x,))) == 1


def test_turned_copies_cost_what_their_reads_do_not_share() -> None:
    """Lanes whole lines apart wait for one bank of the L1; what a block shares comes once."""

    def taken(channels: int, side: int, dtype: str = "bfloat16") -> float:
        shape = (16, channels, side, side)
        rows = TensorSpec(shape, (channels * side**2, side**2, side, 1), dtype, "device", -1)
        last = TensorSpec(
            shape, (channels * side**2, 1, side * channels, channels), dtype, "device", -1
        )
        return one("clone", (rows,), (last,), hot=True).duration_s / rows.numel

    # 66 x 66 values are 8,712 bytes, which 32 banks tell apart better than 64 x 64's 8,192.
    assert taken(64, 64) > 1.2 * taken(64, 66)
    # A block of 512 threads reads whole sectors of 32 channels, but single values of 1,024.
    assert taken(1024, 66) > 1.5 * taken(32, 66)


@pytest.mark.parametrize(
    ("name", "n", "us", "args"),
    [
        # Clocks an element on an H200: digamma 3.1, i0 0.84, trigamma 1.8, other derivatives 20.
        ("digamma", 25_700_000, 308.0, {}),
        ("i0", 7_800_000, 26.7, {}),
        ("special_log_ndtr", 15_000_000, 80.5, {}),
        ("igamma", 25_700_000, 1704.1, {}),
        ("polygamma", 10_700_000, 75.1, {"n": 1}),
        ("polygamma", 15_000_000, 1135.8, {"n": 2}),
    ],
)
def test_functions_of_many_steps(name: str, n: int, us: float, args: dict[str, object]) -> None:
    x = dense(n)
    inputs = (x, dense(n)) if name == "igamma" else (x,)
    assert one(name, inputs, (x,), **args).duration_s == pytest.approx(us * 1e-6, rel=0.3)


def test_a_masked_fill_out_of_place_works_on_its_clone() -> None:
    """The clone of a turned tensor is row-major where the mask is: the fill is vectorized."""
    turned = TensorSpec((1456, 24426), (1, 1456), "float16", "device", -1)
    out, mask = dense(1456, 24426, dtype="float16"), dense(1456, 24426, dtype="bool")
    clone, fill = run("masked_fill", (turned, mask), (out,))
    assert clone.name == "copy_strided"
    assert fill.name == "elementwise_vectorized_masked_fill"


def test_a_number_to_the_power_of_a_tensor_becomes_a_tensor_first() -> None:
    x = dense(64, at=0)
    names = [k.name for k in run("pow", (x,), (dense(64, at=1),), overload="Scalar")]
    assert len(names) == 2
    assert "fill" in names[0]


def test_infinity_is_looked_for_in_absolute_values() -> None:
    x = dense(1024, 512, at=0)
    made = run("isinf", (x,), (dense(1024, 512, dtype="bool", at=1),))
    assert [kernel.name.rpartition("_")[2] for kernel in made] == ["abs", "eq"]
