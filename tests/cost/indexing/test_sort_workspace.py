"""What sorts of long rows borrow."""

from __future__ import annotations

from memory_work import dense

from gpuscope.cost.indexing.sort_workspace import sort_bytes
from gpuscope.cost.workspace import transient_bytes
from gpuscope.hardware import device
from gpuscope.program.types import Op

MIB = 2**20


def sort(*shape: int, dtype: str = "float32", name: str = "sort") -> Op:
    spec = dense(*shape, dtype=dtype)
    outs = (spec, dense(*shape, dtype="int64"))
    return Op(0, f"aten::{name}", inputs=(spec,), outputs=outs, args={"dim": -1})


def test_few_long_rows_borrow_thirty_two_bytes_a_value() -> None:
    op = sort(64, 102400)
    assert sort_bytes(op) == 200 * MIB
    assert transient_bytes(op, device("h200")) == 200 * MIB


def test_short_rows_and_other_operators_borrow_nothing() -> None:
    assert sort_bytes(sort(64, 4096)) == 0
    assert sort_bytes(sort(64, 102400, name="topk")) == 0


def test_one_row_and_many_rows() -> None:
    assert sort_bytes(sort(1, 2**20)) == 2**20 * 20
    assert sort_bytes(sort(4, 2**20)) == 2**20 * 20  # one after the other
    assert sort_bytes(sort(512, 8192)) == 512 * 8192 * 20
    assert sort_bytes(sort(512, 8192, dtype="bfloat16")) == 512 * 8192 * 18
