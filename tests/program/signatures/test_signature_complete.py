"""Which rule a call gets, and elementwise calls without one."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from signature_oracle import agree, meta, recorded

from gpuscope.program.signatures import complete, known
from gpuscope.program.signatures.call import parse


def test_elementwise() -> None:
    x, row = meta(4, 5), meta(5)
    agree("aten::add", x, row, overload="Tensor", elementwise=True)
    agree("aten::mul", meta(5, 4).t(), meta(5, 4).t(), overload="Tensor", elementwise=True)
    agree("aten::gt", x, row, overload="Tensor", elementwise=True)
    agree("aten::gelu_backward", x, x, elementwise=True)
    mixed = meta(4, 5, dtype=torch.float32)
    agree("aten::add", x, mixed, overload="Tensor", elementwise=True)
    assert complete(recorded("aten::add", x, row), values_recorded=True) is None


def test_in_place_calls_write_the_first() -> None:
    found = complete(
        recorded("aten::add_", meta(4, 5), meta(5)), values_recorded=True, elementwise=True
    )
    assert found is not None
    assert found.outputs == found.inputs[:1]


def test_shapes_that_do_not_go_together_get_no_answer() -> None:
    op = recorded("aten::add", meta(4, 5), meta(3))
    assert complete(op, values_recorded=True, elementwise=True) is None


def test_known_names() -> None:
    assert known("aten::mm")
    assert known("aten::_foreach_add_")
    assert known("aten::_fused_adamw_")
    assert not known("aten::nobody_wrote_this")


@given(st.text(max_size=40))
def test_values_are_read_or_left_alone(text: str) -> None:
    parse(text)


@given(st.lists(st.integers(-(2**40), 2**40), max_size=6))
def test_lists_are_read(values: list[int]) -> None:
    assert parse(str(values)) == values
