"""What is still in the L2: bytes touched since, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matmul_work import dense

from gpuscope.cost.identity import Same
from gpuscope.cost.residency import residency
from gpuscope.program.types import Op, TensorSpec

MEBIBYTE = 2**20


def spec(storage: int, mebibytes: int = 1, dtype: str = "float32") -> TensorSpec:
    return replace(dense(mebibytes * MEBIBYTE // 4, dtype=dtype), storage=storage)


def hot(*ops: tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]], l2: float = 8) -> list[object]:
    made = tuple(
        Op(i, "aten::add", inputs=inputs, outputs=outputs)
        for i, (inputs, outputs) in enumerate(ops)
    )
    return list(residency(Same(made), l2 * MEBIBYTE))


def test_what_was_just_written_is_there() -> None:
    a, b, c = spec(1), spec(2), spec(3)
    assert hot(((a,), (b,)), ((b,), (c,))) == [(False,), (True,)]


def test_a_device_without_an_l2_has_nothing() -> None:
    a, b = spec(1), spec(2)
    assert hot(((a,), (b,)), ((b,), (a,)), l2=0) == [(False,), (False,)]


def test_three_quarters_survive() -> None:
    """Of 8 MiB 6: an input of 1 after 5 more since its last use, not after 6."""
    a, b = spec(1), spec(2)
    for more, there in ((5, True), (6, False)):
        between = spec(3, more)
        assert hot(((a,), (b,)), ((between,), ()), ((a,), ()))[-1] == (there,)


def test_what_indices_pick_is_there_though_the_table_is_too_large() -> None:
    table, picked = spec(1, 64), spec(2)
    indices = replace(dense(64, dtype="int64"), storage=4)
    look = Op(0, "aten::embedding", inputs=(table, indices), outputs=(picked,))
    again = replace(look, index=1)
    assert list(residency(Same((look, again)), 8 * MEBIBYTE))[-1] == (True, True)


@pytest.mark.parametrize("name", ["aten::scatter_add_", "aten::index_add_"])
def test_what_indices_are_added_to_is_there_though_the_table_is_too_large(name: str) -> None:
    table, values = spec(1, 64), replace(dense(64, 16, dtype="float32"), storage=2)
    index = TensorSpec((64, 16), (1, 0), "int64", storage=4)
    add = Op(0, name, inputs=(table, index, values), outputs=(table,))
    found = residency(Same((add, replace(add, index=1))), 8 * MEBIBYTE)
    assert [flags[0] for flags in found] == [False, True]
