from __future__ import annotations

import pytest
from memory_work import dense, median_error, run

from gpuscope.cost.types import Kernel


def bags(rows: int, count: int, width: int = 16) -> tuple[Kernel, ...]:
    table, index = dense(rows, width), dense(count, dtype="int64")
    return run("_embedding_bag_backward", (dense(count, width), index), (table,))


def named(kernels: tuple[Kernel, ...], name: str) -> list[Kernel]:
    return [k for k in kernels if name in k.name]


def test_up_to_2304_indices_are_sorted_by_one_block() -> None:
    """256 threads with 9 pairs of 8 bytes each; 64 bits, 6 at a time: 11 passes of 1.2 us."""
    small, large = bags(100_000, 2304), bags(100_000, 2305)
    (sort,) = named(small, "radix_sort")
    assert sort.grid == 1
    assert sort.duration_s == pytest.approx(15.8e-6, rel=0.05)
    assert len(named(large, "onesweep")) == 8
    assert len(large) > len(small) + 8


def test_thousands_of_indices_on_few_rows_are_a_chain() -> None:
    """8,192 rows in parts of ten on two rows of the table: 410 parts, one after the other. An H200
    took 26 us for them, and 41 us for 65,536 indices that differ."""
    chained = named(bags(2, 8192, 768), "sum_and_scatter")[0]
    spread = named(bags(10_000_000, 8192, 768), "sum_and_scatter")[0]
    assert (chained.grid, spread.grid) == (2, 8192)
    assert chained.duration_s == pytest.approx(26e-6, rel=0.15)
    many = named(bags(10_000_000, 65536), "sum_and_scatter")[0]
    assert many.duration_s == pytest.approx(41.3e-6, rel=0.15)


def test_fewer_rows_never_make_the_chain_shorter() -> None:
    times = [named(bags(rows, 16384), "sum_and_scatter")[0].duration_s for rows in (2, 8, 64, 512)]
    assert times == sorted(times, reverse=True)


def test_the_blocks_of_short_rows_wait_to_begin() -> None:
    """72,089 blocks of one warp: 0.605 ns each and a little, whatever they add up."""
    made = named(bags(10_000_000, 65536), "compute_grad_weight")[0]
    assert made.grid == 65536 + 6553
    assert made.duration_s == pytest.approx(made.grid * 0.605e-9, rel=0.1)


def test_no_indices_only_clear_the_table() -> None:
    kernels = run(
        "embedding_dense_backward", (dense(0, 8), dense(0, dtype="int64")), (dense(10, 8),)
    )
    assert [k.kind for k in kernels] == ["copy"]


def test_recorded_calls() -> None:
    assert median_error("embedding_dense_backward", "_embedding_bag_backward") < 0.1
