from __future__ import annotations

import pytest
from memory_work import dense, median_error, one, run

from gpuscope.cost.copy.model import part_of
from gpuscope.program.types import TensorSpec

N = 2**24


def test_a_clone_is_a_memcpy_and_reads_what_it_writes() -> None:
    made = one("clone", (dense(N, at=0),), (dense(N, at=1),))
    assert (made.name, made.read_bytes, made.written_bytes) == ("memcpy_d2d", 4 * N, 4 * N)


def test_narrowing_is_vectorized_and_widening_is_not() -> None:
    wide, narrow = dense(N, at=0), dense(N, dtype="bfloat16", at=1)
    down = one("_to_copy", (wide,), (narrow,))
    up = one("_to_copy", (narrow,), (wide,))
    assert down.name == "copy_vectorized"
    assert up.name == "copy_unrolled"
    assert up.duration_s > 1.5 * down.duration_s


def test_copy_reads_its_source_only() -> None:
    target, source = dense(N, at=0), dense(N, dtype="bfloat16", at=1)
    made = one("copy_", (target, source), (target,))
    assert (made.read_bytes, made.written_bytes) == (2 * N, 4 * N)


def test_transposing_is_slower_than_copying() -> None:
    turned = TensorSpec((4096, 4096), (1, 4096), "float32")
    out = dense(4096, 4096)
    assert one("clone", (turned,), (out,)).duration_s > 2 * one("clone", (out,), (out,)).duration_s


def test_empty_launches_nothing_and_fill_writes_once() -> None:
    assert run("zeros", (), (dense(0),)) == ()
    made = one("zeros", (), (dense(N),))
    assert (made.read_bytes, made.written_bytes) == (0, 4 * N)


def test_concatenation_moves_every_byte_once_each_way() -> None:
    parts = (dense(1024, 4096, at=0), dense(512, 4096, at=1))
    made = one("cat", parts, (dense(1536, 4096, at=2),), dim=0)
    size = 1536 * 4096 * 4
    assert (made.read_bytes, made.written_bytes) == (size, size)
    assert made.name == "cat_vectorized"


def test_strided_parts_are_concatenated_element_by_element() -> None:
    part = TensorSpec((8, 32, 2048, 64), (32 * 2048 * 128, 2048 * 128, 128, 1), "bfloat16")
    made = one("cat", (part, part), (dense(8, 32, 2048, 128, dtype="bfloat16"),), dim=-1)
    assert made.name == "cat"


def test_many_parts_need_several_launches() -> None:
    parts = tuple(dense(64, at=i) for i in range(300))
    assert len(run("cat", parts, (dense(300 * 64),), dim=0)) == 3


def test_splitting_moves_every_byte_once_each_way() -> None:
    parts = (dense(8, 1024, at=1), dense(8, 512, at=2))
    made = one("split_with_sizes_copy", (dense(8, 1536, at=0),), parts, dim=1)
    size = 8 * 1536 * 4
    assert (made.read_bytes, made.written_bytes) == (size, size)


def test_slices_gradients_fill_and_copy() -> None:
    fill, copy = run("slice_backward", (dense(256, 1024),), (dense(1024, 1024),))
    assert fill.written_bytes == 4 * 2**20
    assert copy.written_bytes == 2**20


def test_a_view_operator_launches_nothing() -> None:
    assert run("as_strided_", (dense(8),), (dense(8),)) == ()


def test_recorded_calls() -> None:
    assert median_error("clone", "copy_", "_to_copy") < 0.13
    assert median_error("cat", "stack", "triu", "arange", "fill_", "zero_", "zeros_like") < 0.13


def test_matrices_of_experts_are_cast_into_a_flat_buffer() -> None:
    """FSDP's copy into the buffer of a reduce-scatter: parts of more dimensions than the whole."""
    parts = (dense(8, 64, 32, dtype="bfloat16", at=0), dense(64, 32, dtype="bfloat16", at=1))
    total = sum(part.numel for part in parts)
    made = run("_chunk_cat", parts, (dense(4, total // 4, at=2),))
    assert sum(k.read_bytes for k in made) == 2 * total
    assert sum(k.written_bytes for k in made) == 4 * total


def test_a_pad_that_adds_nothing_is_one_copy() -> None:
    x = dense(16, 64, 128)
    assert len(run("constant_pad_nd", (x,), (x,), pad=[0, 0])) == 1
    assert len(run("constant_pad_nd", (x,), (dense(16, 63, 128),), pad=[0, 0, -1, 0])) == 1
    assert len(run("constant_pad_nd", (x,), (dense(16, 65, 128),), pad=[0, 0, 1, 0])) == 2


def test_a_copy_of_an_odd_size_is_cut_in_two_from_a_mebibyte_on() -> None:
    """1,047,736 bytes took 1.6 us on an H200, 1,258,560 took 7.0 and 1,179,648 1.1."""

    def taken(nbytes: int) -> float:
        x = dense(nbytes // 4)
        return one("clone", (x,), (x,), hot=True).duration_s

    assert taken(1_047_736) < 1.7e-6
    assert taken(1_179_648) < 1.7e-6
    assert taken(1_258_560) > 3e-6


def test_a_selected_dimension_leaves_its_place() -> None:
    part = part_of(dense(1, 284, 127, 127, 3), dense(1, 284, 127, 127))
    assert part.stride == (284 * 127 * 127 * 3, 127 * 127 * 3, 127 * 3, 3)
    assert part_of(dense(8, 5, 7), dense(8, 7)).stride == (35, 1)


def test_units_of_memory_that_are_written_in_part_are_read() -> None:
    """Every third value of 55 MB: 34 us on an H200, whose L2 does not hold them."""
    part, out = dense(1, 284, 127, 127), dense(1, 284, 127, 127, 3)
    spread = run("select_backward", (part,), (out,), dim=4, index=1)[-1]
    assert spread.read_bytes >= 3 * part.nbytes
    small = run("select_backward", (dense(64, 64),), (dense(64, 64, 3),), dim=2, index=1)[-1]
    assert small.read_bytes == 64 * 64 * 4


def test_rows_far_apart_are_read_again() -> None:
    """33 million values of 8 bytes, of 41 innermost the next 812,000 copies later: 877 us."""
    shape = (41, 1188, 684)
    source = TensorSpec(shape, (1, 28044, 41), "int64", "device", -1)
    far = one("clone", (source,), (dense(*shape, dtype="int64"),))
    assert far.read_bytes == 8 * source.nbytes
    assert far.duration_s == pytest.approx(877e-6, rel=0.4)
    near = TensorSpec((41, 64, 64), (1, 64 * 41, 41), "int64", "device", -1)
    assert one("clone", (near,), (dense(41, 64, 64, dtype="int64"),)).read_bytes == near.nbytes


def test_a_pad_of_nothing_is_a_copy_and_a_shift_fills_first() -> None:
    """[3, 333, 4096] padded by (1, -1) took 11.7 us on an H200; 9.6 MB padded by nothing 3.6."""
    x = dense(3, 333, 4096, dtype="float16")
    fill, shifted = run("constant_pad_nd", (x,), (x,), hot=True, pad=(0, 0, 1, -1))
    assert fill.name == "elementwise_vectorized_fill"
    assert shifted.name == "copy_strided"
    assert fill.duration_s + shifted.duration_s == pytest.approx(11.7e-6, rel=0.3)
    same = dense(32, 14, 14, 384)
    none = one("constant_pad_nd", (same,), (same,), hot=True, pad=(0, 0, 0, 0, 0, 0))
    assert none.duration_s == pytest.approx(3.6e-6, rel=0.2)
