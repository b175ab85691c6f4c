"""Partial results of reductions: as an H200's allocator recorded them in whole programs."""

from __future__ import annotations

import pytest

from gpuscope.cost.reduction.workspace import borrowed_bytes, partial_bytes
from gpuscope.hardware import device
from gpuscope.program.types import Op, TensorSpec

MIB = 2**20
H200 = device("h200")


def reduction(shape, dims, name="sum", dtype="float32", out="float32") -> Op:
    stride, step = [0] * len(shape), 1
    for d in reversed(range(len(shape))):
        stride[d], step = step, step * shape[d]
    spec = TensorSpec(tuple(shape), tuple(stride), dtype, device="device")
    left = tuple(n for d, n in enumerate(shape) if d not in dims)
    made = TensorSpec(left, (1,) * len(left), out, device="device")
    return Op(0, f"aten::{name}", inputs=(spec,), outputs=(made,), args={"dim": list(dims)})


RECORDED = [
    ((196608, 128), (0,), 138412032),
    ((10, 4096, 512), (1,), 138936320),
    ((4096, 4096), (0,), 134217728),
]
"""Bias gradients of a radiance field and of ten critics, and the sum in a `logsumexp`."""


@pytest.mark.parametrize(("shape", "dims", "nbytes"), RECORDED)
def test_as_recorded(shape, dims, nbytes) -> None:
    assert partial_bytes(reduction(shape, dims), H200) == nbytes


def test_few_values_share_no_output() -> None:
    assert partial_bytes(reduction((64, 128), (0,)), H200) == 0


def test_along_rows_a_block_leaves_one_result() -> None:
    # 4 rows of 2^24 values: at most one float for each block and row.
    found = partial_bytes(reduction((4, 2**24), (1,)), H200)
    assert 0 < found <= 4 * 4 * H200.compute_units * 16


def test_half_precision_is_added_up_in_float32() -> None:
    whole = partial_bytes(reduction((196608, 128), (0,)), H200)
    assert partial_bytes(reduction((196608, 128), (0,), dtype="bfloat16"), H200) == whole


def test_a_place_and_moments_take_more_than_a_sum() -> None:
    shape = (196608, 128), (0,)
    total = partial_bytes(reduction(*shape), H200)
    assert partial_bytes(reduction(*shape, name="argmax"), H200) == 4 * total
    assert partial_bytes(reduction(*shape, name="var"), H200) == 4 * total


def test_a_mask_is_counted_in_whole_numbers_of_eight_bytes() -> None:
    mask = reduction((32, 1024, 2048), (2,), dtype="bool", out="int64")
    assert borrowed_bytes(mask, H200) == 8 * 32 * 1024 * 2048  # 512 MiB of a mask of 64
    assert borrowed_bytes(reduction((64, 128), (0,), dtype="bfloat16"), H200) == 0


def test_partial_counts_are_whole_numbers_of_eight_bytes_too() -> None:
    mask = reduction((196608, 128), (0,), dtype="bool", out="int64")
    wide = reduction((196608, 128), (0,), dtype="int64", out="int64")
    copied = 8 * 196608 * 128
    assert borrowed_bytes(mask, H200) == copied + partial_bytes(wide, H200)


def test_other_operators_borrow_nothing() -> None:
    assert partial_bytes(reduction((196608, 128), (0,), name="relu"), H200) == 0
