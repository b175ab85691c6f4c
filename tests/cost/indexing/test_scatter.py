from __future__ import annotations

from dataclasses import replace

import pytest
from memory_work import dense, one, run, seconds

from gpuscope.cost.pointwise.elementwise import lines_of_warp


def added(rows: int, width: int, count: int, dtype: str = "float32") -> float:
    table, values = dense(rows, width, dtype=dtype), dense(count, width, dtype=dtype)
    index = replace(dense(count, width, dtype="int64"), stride=(1, 0))
    return one("scatter_add_", (table, index, values), (table,), hot=True).duration_s


def test_out_of_place_copies_first() -> None:
    x, index = dense(1024, 64), dense(1024, 64, dtype="int64")
    assert len(run("scatter_add", (x, index, x), (x,))) == 2
    assert len(run("scatter_add_", (x, index, x), (x,))) == 1


def test_sums_that_meet_wait_for_each_other() -> None:
    """Two million float32 on 80 places: 131 us on an H200; on many places they do not wait."""
    assert added(5, 16, 124915) == pytest.approx(131e-6, rel=0.3)
    assert added(100_000, 16, 124915) < 40e-6


def test_sixteen_bit_sums_are_tried_again() -> None:
    """4.4 million bfloat16 on 9,945 places: 409 us on an H200."""
    assert added(195, 51, 86271, "bfloat16") == pytest.approx(409e-6, rel=0.3)
    assert added(195, 51, 86271, "bfloat16") > 10 * added(195, 51, 86271)


def test_few_rows_are_taken_one_after_the_other() -> None:
    """14 rows of 28 float32: 6.0 us; 17 rows of 112, a block each: 1.1 us on an H200."""

    def picked(count: int) -> float:
        table, index = dense(5000, 32), dense(count, dtype="int64")
        return one("index_select", (table, index), (dense(count, 32),), hot=True, dim=0).duration_s

    assert picked(14) == pytest.approx(6.0e-6, rel=0.25)
    assert picked(17) == pytest.approx(1.14e-6, rel=0.25)
    assert picked(16) > picked(8) > picked(2)


def test_what_autograd_writes_by_is_not_held_against_the_size() -> None:
    x, index, values = dense(1024, 64), dense(512, dtype="int64"), dense(512, 64)
    looked = run("index_put_", (x, index, values), (x,), accumulate=True)
    known = run("_index_put_impl_", (x, index, values), (x,), accumulate=True, unsafe=True)
    assert [k.name for k in looked].count("assert") == 2
    assert [k.name for k in known].count("assert") == 0
    assert looked[-1].duration_s == known[-1].duration_s


def test_equal_indices_are_added_by_one_warp() -> None:
    """7,965 rows of 128 for each of 34 places: 5.7 ms on an H200, not 71."""
    x, index = dense(34, 128), dense(270800, dtype="int64")
    made = run("index_put_", (x, index, dense(270800, 128)), (x,), accumulate=True)
    assert made[-1].duration_s == pytest.approx(5.7e-3, rel=0.5)


def test_a_warp_touches_a_line_for_each_thread_of_a_long_transposition() -> None:
    turned = replace(dense(64, 64), stride=(1, 64))
    assert lines_of_warp(dense(64, 64), dense(64, 64)) == 1
    assert lines_of_warp(turned, dense(64, 64)) == 32
    # Two channels: neighbours come from two dense streams.
    assert lines_of_warp(replace(dense(4096, 2), stride=(1, 4096)), dense(4096, 2)) <= 4


def test_many_long_rows_are_sorted_a_block_each() -> None:
    """172 rows of 62,838 float32: six passes of 152 to 178 us on an H200."""
    x = dense(172, 62838)
    made = run("sort", (x,), (x, dense(172, 62838, dtype="int64")), dim=-1)
    passes = [k for k in made if k.name == "segmented_radix_sort"]
    assert len(passes) == 6
    assert seconds(tuple(passes)) == pytest.approx(1014e-6, rel=0.2)


def test_lists_in_the_cache_are_stepped_through_sooner() -> None:
    """Chunks of 28,000 elements: 6.9 us on an H200 where the L2 holds them."""
    lists = (dense(28003), dense(28003), dense(28003))
    (near,) = run("_foreach_mul_", lists, overload="Scalar", hot=True)
    (far,) = run("_foreach_mul_", lists, overload="Scalar")
    assert near.duration_s == pytest.approx(6.9e-6, rel=0.25)
    assert far.duration_s > 1.3 * near.duration_s


def test_a_thread_walks_eight_elements_one_after_the_other() -> None:
    """8 rows of 128 and 512 elements of one: 4.3, 8.4 (cold) and 1.9 us on an H200."""
    table, index, source = dense(2048, 16), dense(2048, 1, dtype="int64"), dense(2048, 1)
    hot = seconds(run("scatter_", (table, index, source), (table,), dim=1, hot=True))
    cold = seconds(run("scatter_", (table, index, source), (table,), dim=1))
    assert hot == pytest.approx(4.3e-6, rel=0.15)
    assert cold == pytest.approx(8.2e-6, rel=0.15)
    small = dense(512, 1), dense(512, 1, dtype="int64")
    assert seconds(run("scatter_", small, (small[0],), dim=1, hot=True)) < 0.55 * hot


def test_additions_to_few_places_wait_for_their_line() -> None:
    """3,088,209 values into 408 places took 570 us on an H200, into 49,052 a fifteenth."""

    def taken(places: int) -> float:
        table, values = dense(places, 1), dense(3_088_209, 1)
        index = dense(3_088_209, 1, dtype="int64")
        return run("scatter_add_", (table, index, values), (table,), hot=True)[-1].duration_s

    assert taken(408) == pytest.approx(570e-6, rel=0.2)
    assert taken(408) > 5 * taken(49_052)


def test_extrema_swap_and_means_count() -> None:
    """Recorded on an H200, into 424 places: sums 51 us, extrema 155; a mean is eight kernels."""
    table, values = dense(424, 1), dense(277_648, 1)
    inputs = table, dense(277_648, 1, dtype="int64"), values

    def taken(how: str) -> float:
        return seconds(run("scatter_reduce", inputs, (table,), hot=True, dim=0, reduce=how))

    assert taken("sum") == pytest.approx(52e-6, rel=0.2)
    assert taken("amax") == pytest.approx(155e-6, rel=0.2)
    small = dense(406, 1), dense(1073, 1, dtype="int64"), dense(1073, 1)
    made = run("scatter_reduce", small, (dense(406, 1),), hot=True, dim=0, reduce="mean")
    assert seconds(made) == pytest.approx(14.9e-6, rel=0.35)


def test_an_index_that_is_stored_for_each_element_waits_no_less() -> None:
    """8,296 rows of 38 bfloat16 on 9: 1.05 ms by a broadcast index and by a dense one."""
    table, values = dense(9, 38, dtype="bfloat16"), dense(8296, 38, dtype="bfloat16")
    index = dense(8296, 38, dtype="int64")
    sums = one("scatter_add_", (table, index, values), (table,), hot=True).duration_s
    assert sums == pytest.approx(1.05e-3, rel=0.25)
    reduced = one("scatter_reduce_", (table, index, values), (table,), hot=True, reduce="sum")
    assert reduced.duration_s == pytest.approx(sums, rel=0.05)


def test_extrema_that_meet_try_again_step_by_step() -> None:
    """1,861 rows of 2 float32 on 4: 24 us; 2,792 of 22 on 3,139, where few meet: 12 us."""

    def largest(rows: int, width: int, count: int) -> float:
        index = replace(dense(count, width, dtype="int64"), stride=(1, 0))
        inputs = (dense(rows, width), index, dense(count, width))
        return one("scatter_reduce_", inputs, inputs[:1], hot=True, reduce="amax").duration_s

    assert largest(4, 2, 1861) == pytest.approx(24e-6, rel=0.25)
    assert largest(3139, 22, 2792) == pytest.approx(12e-6, rel=0.5)


def test_lanes_beside_each_other_share_a_sector() -> None:
    """2.6 million float32 into 49,052 single places: 37 us; as rows of 8 they are eighths."""
    assert added(49052, 1, 2620532) == pytest.approx(37.5e-6, rel=0.3)
    assert added(49052, 8, 2620532 // 8) < 0.5 * added(49052, 1, 2620532)


def test_a_broadcast_index_is_read_once_a_row() -> None:
    """16.9 million float32 by 52,767 indices: 49 us on an H200, a quarter of it the index' if each
    element had its own."""
    assert added(4098, 320, 52767) == pytest.approx(48.8e-6, rel=0.35)
