from __future__ import annotations

from dataclasses import replace

import pytest
from memory_work import dense, median_error, one, run, seconds


def embedding(vocabulary: int, width: int, count: int) -> float:
    table, index = dense(vocabulary, width, at=0), dense(count, dtype="int64", at=1)
    return one("embedding", (table, index), (dense(count, width, at=2),)).duration_s


def test_rows_cross_memory_once_each_way() -> None:
    table, index = dense(50257, 768, at=0), dense(8192, dtype="int64", at=1)
    made = one("embedding", (table, index), (dense(8192, 768, at=2),))
    assert (made.read_bytes, made.written_bytes) == (8192 * 768 * 4, 8192 * 768 * 4)


def test_many_short_rows_are_latency() -> None:
    """A million rows of 512 bytes took 603 us on an H200, twice what their bytes need."""
    taken = embedding(1_000_000, 128, 1_000_000)
    assert taken == pytest.approx(603e-6, rel=0.25)
    assert taken > 1.5 * 2 * 512e6 / 4.8e12


def test_few_indices_are_walked_and_many_are_sorted() -> None:
    table = dense(50257, 768)

    def gradient(count: int) -> list[str]:
        rows, index = dense(count, 768), dense(count, dtype="int64")
        return [k.name for k in run("embedding_dense_backward", (rows, index), (table,))]

    assert len(gradient(1000)) == 2
    assert gradient(8192).count("radix_sort_onesweep") == 8
    assert gradient(8192)[-2:] == ["compute_grad_weight", "sum_and_scatter"]


def test_the_gradient_of_a_table_writes_all_of_it() -> None:
    rows, index, table = dense(8192, 64), dense(8192, dtype="int64"), dense(1_000_000, 64)
    kernels = run("embedding_dense_backward", (rows, index), (table,))
    fill = max(kernels, key=lambda k: k.written_bytes)
    assert fill.written_bytes == 1_000_000 * 64 * 4


def test_accumulated_values_that_are_a_slice_are_copied_first() -> None:
    """The gradient of a gathered row that was put beside others."""
    x, index = dense(40000, 256), dense(240000, dtype="int64")
    rows = dense(240000, 256)
    part = replace(rows, stride=(768, 1))
    whole = run("_index_put_impl_", (x, index, rows), (x,), accumulate=True)
    sliced = run("_index_put_impl_", (x, index, part), (x,), accumulate=True)
    assert len(sliced) == len(whole) + 1
    assert sliced[0].name == "copy_strided"


def test_accumulating_writes_sort_their_indices() -> None:
    x, index = dense(1024, 64), dense(512, dtype="int64")
    plain = run("index_put_", (x, index, dense(512, 64)), (x,))
    adding = run("index_put_", (x, index, dense(512, 64)), (x,), accumulate=True)
    assert len(plain) == 1
    assert adding[-2].name.startswith("radix_sort")


def test_indices_are_expanded_to_each_other() -> None:
    """Rows by columns of a window: as many values as both together pick, sorted and added."""
    x, values = dense(1024, 1024), dense(800, 256, 256)
    rows, columns = dense(800, 256, 1, dtype="int64"), dense(800, 1, 256, dtype="int64")
    both = dense(800, 256, 256, dtype="int64")
    apart = run("_index_put_impl_", (x, rows, columns, values), (x,), accumulate=True)
    whole = run("_index_put_impl_", (x, both, both, values), (x,), accumulate=True)
    assert [k.name for k in apart] == [k.name for k in whole]
    assert apart[-1].duration_s == whole[-1].duration_s
    # Each step of making them one index writes 8 bytes for each of 52 million.
    steps = [k for k in apart if k.name == "linear_index"]
    assert len(steps) == 7
    assert all(k.duration_s > 800 * 256 * 256 * 8 / 4.8e12 for k in steps)
    # What is not expanded yet is read from where few are.
    assert sum(k.duration_s for k in apart) < sum(k.duration_s for k in whole)


def test_dimensions_before_the_index_repeat_its_blocks() -> None:
    """351 values of 27 x 27 picked from each of 2,048 images: 88 blocks of four an image."""
    x, index = dense(2048, 27, 27), dense(351, dtype="int64")
    made = run(
        "_index_put_impl_",
        (x, index, index, dense(2048, 351)),
        (x,),
        accumulate=True,
        indices=(None, "tensor", "tensor"),
    )
    assert made[-1].grid == 88 * 2048
    assert len([k for k in made if k.name == "radix_sort_single_tile"]) == 1
    assert made[-1].duration_s > 88 * 2048 * 0.6e-9


def test_positions_of_a_mask_are_fetched_by_the_host() -> None:
    kernels = run("nonzero", (dense(10**6, dtype="bool"),), (dense(5 * 10**5, 1, dtype="int64"),))
    assert any(k.lane == "copy_d2h" for k in kernels)


def test_empty_index_launches_nothing() -> None:
    assert run("embedding", (dense(8, 8), dense(0, dtype="int64")), (dense(0, 8),)) == ()


def test_more_indices_take_longer() -> None:
    times = [embedding(50257, 768, n) for n in (20, 1000, 30_000, 300_000)]
    assert times == sorted(times)
    assert (
        seconds(
            run("index_add_", (dense(9, 8), dense(4, dtype="int64"), dense(4, 8)), (dense(9, 8),))
        )
        > 0
    )


def test_recorded_calls() -> None:
    assert median_error("embedding", "index_select", "index", "gather") < 0.2
    assert median_error("index_put_", "index_add_", "scatter_add_", "_embedding_bag") < 0.2
    assert median_error("embedding_dense_backward", "_embedding_bag_backward") < 0.15


def test_a_histogram_is_counted_in_one_kernel() -> None:
    """16,384 values into 64 bins: 2.2 us with the fill before it, on an H200."""
    found = run("histc", (dense(16384, dtype="int32"),), (dense(64, dtype="int32"),), hot=True)
    assert [k.name for k in found] == ["elementwise_vectorized_fill", "histc"]
    assert sum(k.duration_s for k in found) == pytest.approx(2.2e-6, rel=0.2)
