"""What a tensor's shape and strides say about its memory."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.program.types import DTYPE_BYTES, Op, Program, Storage, TensorSpec


def contiguous(shape: tuple[int, ...], dtype: str = "float32") -> TensorSpec:
    stride, step = [], 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= size
    return TensorSpec(shape, tuple(stride), dtype)


SHAPES = st.lists(st.integers(1, 6), min_size=0, max_size=5).map(tuple)


@given(SHAPES, st.sampled_from(sorted(DTYPE_BYTES)))
def test_a_row_major_tensor(shape, dtype) -> None:
    spec = contiguous(shape, dtype)
    assert spec.numel == math.prod(shape)
    assert spec.nbytes == spec.touched_bytes == math.ceil(spec.numel * DTYPE_BYTES[dtype])
    assert spec.is_contiguous
    assert spec.is_dense
    assert not spec.is_channels_last


@given(SHAPES, st.randoms(use_true_random=False))
def test_any_order_of_dimensions_stays_dense(shape, random) -> None:
    order = list(range(len(shape)))
    random.shuffle(order)
    spec = contiguous(shape)
    turned = TensorSpec(
        tuple(spec.shape[d] for d in order), tuple(spec.stride[d] for d in order), spec.dtype
    )
    assert turned.is_dense
    assert turned.nbytes == spec.nbytes
    real = [d for d in order if shape[d] != 1]
    assert turned.is_contiguous == (real == sorted(real))


@given(SHAPES, st.integers(1, 9))
def test_broadcast_dimensions_count_once(shape, times) -> None:
    spec = contiguous(shape)
    broadcast = TensorSpec((times, *spec.shape), (0, *spec.stride), spec.dtype)
    assert broadcast.nbytes == times * spec.nbytes
    assert broadcast.touched_bytes == spec.nbytes


def test_a_slice_is_not_dense() -> None:
    half = TensorSpec((4, 2), (4, 1), "float32")
    assert not half.is_dense
    assert not half.is_contiguous


def test_overlapping_windows_are_not_dense() -> None:
    assert not TensorSpec((3, 2), (1, 1), "float32").is_dense


@pytest.mark.parametrize(
    ("shape", "stride", "expected"),
    [
        ((2, 3, 4, 5), (60, 1, 15, 3), True),
        ((2, 3, 4, 5), (60, 20, 5, 1), False),
        ((2, 3, 4, 5, 6), (360, 1, 90, 18, 3), True),
        ((2, 1, 4, 5), (20, 20, 5, 1), False),  # one channel: both at once, and row-major wins
        ((2, 3, 4), (12, 1, 3), False),
    ],
)
def test_channels_last(shape, stride, expected) -> None:
    assert TensorSpec(shape, stride, "float32").is_channels_last is expected


def test_scalars_and_empty_tensors() -> None:
    scalar = TensorSpec((), (), "float32")
    assert (scalar.numel, scalar.nbytes, scalar.is_contiguous) == (1, 4, True)
    assert contiguous((0, 5)).nbytes == 0


def test_packed_types() -> None:
    assert contiguous((3,), "int4").nbytes == 2  # three half bytes need two
    assert contiguous((8, 8), "int4").nbytes == 32


def test_programs_are_values() -> None:
    program = Program("p", (Op(0, "aten::add"),), (Storage(0, 4, "input", -1, None),))
    assert program == Program("p", (Op(0, "aten::add"),), (Storage(0, 4, "input", -1, None),))
    with pytest.raises(FrozenInstanceError):
        program.name = "other"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        program.ops[0].stream = 1  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        program.storages[0].nbytes = 8  # type: ignore[misc]
    assert hash(contiguous((2, 3))) == hash(contiguous((2, 3)))
