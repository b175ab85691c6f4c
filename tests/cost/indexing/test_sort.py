from __future__ import annotations

import pytest
from memory_work import dense, median_error, run, seconds

from gpuscope.cost.indexing.sort import _row_blocks


def topk(rows: int, columns: int, k: int) -> list[str]:
    out = (dense(rows, k), dense(rows, k, dtype="int64"))
    return [kernel.name for kernel in run("topk", (dense(rows, columns),), out, dim=-1)]


def test_a_pass_for_each_byte_of_the_key() -> None:
    def passes(dtype: str) -> int:
        x, index = dense(10**6, dtype=dtype), dense(10**6, dtype="int64")
        return sum(k.name == "radix_sort_onesweep" for k in run("sort", (x,), (x, index)))

    assert passes("float32") == 4
    assert passes("bfloat16") == 2


def test_long_rows_are_searched_by_several_blocks() -> None:
    assert topk(12288, 128, 50) == ["topk_rows", "sort_rows_in_place"]
    assert topk(8192, 768, 50).count("topk_digit_counts") == 4


def test_the_single_largest_needs_no_sort() -> None:
    assert topk(64, 100, 1) == ["topk_rows"]


def test_time_grows_with_the_number_of_keys() -> None:
    times = [
        seconds(run("sort", (dense(n),), (dense(n), dense(n, dtype="int64"))))
        for n in (10**4, 10**6, 10**8)
    ]
    assert times == sorted(times)


def test_sampling_ends_in_the_largest() -> None:
    kernels = run("multinomial", (dense(64, 50257),), (dense(64, 1, dtype="int64"),), num_samples=1)
    assert kernels[-1].name == "reduce_argmax"


def test_recorded_calls() -> None:
    assert median_error("sort", "topk") < 0.25


def test_few_largest_of_short_rows() -> None:
    """2,048 rows on an H200: 6.7 us for the largest of 16; the 8 largest of 128 take 15.4 us to
    find, and 5.0 more to sort where that is asked for."""

    def us(columns: int, k: int, **args: object) -> float:
        found = dense(2048, k)
        index = dense(2048, k, dtype="int64")
        return seconds(run("topk", (dense(2048, columns),), (found, index), hot=True, **args)) * 1e6

    assert us(16, 1) == pytest.approx(6.7, rel=0.25)
    assert us(128, 8, sorted=False) == pytest.approx(15.4, rel=0.25)
    assert us(128, 8) - us(128, 8, sorted=False) == pytest.approx(5.0, rel=0.25)
    times = [us(n, 1) for n in (1, 16, 64, 256, 1024)]
    assert times == sorted(times)


def test_a_median_is_picked_like_a_kth_value() -> None:
    """22.8 us on an H200 for 1,024 rows of 512."""
    x, out = dense(1024, 512, at=0), dense(1024, at=1)
    places = dense(1024, dtype="int64", at=2)
    picked = run("median", (x,), (out, places), overload="dim", dim=1)
    kth = run("kthvalue", (x,), (out, places), dim=1, k=256)
    assert [k.duration_s for k in picked] == [k.duration_s for k in kth]
    assert sum(k.duration_s for k in picked) == pytest.approx(22.8e-6, rel=0.15)


@pytest.mark.parametrize(
    ("rows", "columns", "blocks"),
    [(1, 954319, 746), (1, 19469661, 1189), (122, 19948, 6), (2196, 21978, 2), (950, 2183, 1)],
)
def test_rows_of_topk_have_the_blocks_that_they_were_recorded_with(
    rows: int, columns: int, blocks: int
) -> None:
    assert _row_blocks(132, rows, columns) == blocks


def test_one_block_adds_up_what_a_long_rows_blocks_counted() -> None:
    """954,319 float32: 107 us, of which four sums over 746 blocks' counts are 62."""
    x = dense(1, 954319)
    out = dense(1, 50), dense(1, 50, dtype="int64")
    kernels = run("topk", (x,), out, hot=True, k=50, dim=1)
    sums = [k.duration_s for k in kernels if k.name == "topk_digit_sums"]
    assert sum(sums) == pytest.approx(62e-6, rel=0.1)
    assert sum(k.duration_s for k in kernels) == pytest.approx(107e-6, rel=0.15)
