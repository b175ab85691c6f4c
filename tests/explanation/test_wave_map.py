"""Blocks on multiprocessors: every block is somewhere, and the tail is where it must be."""

from __future__ import annotations

from blocks import named_cells
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.explanation.wave_map import MOST_COLUMNS, MOST_ROWS, wave_map


@given(st.integers(1, 2000), st.integers(2, MOST_COLUMNS))
def test_every_block_is_drawn_once(blocks: int, units: int) -> None:
    if blocks > units * MOST_ROWS:
        blocks = units * MOST_ROWS
    drawn = wave_map(blocks, units, 1, "SM")
    assert drawn is not None
    assert sum(cell != "idle" for row in named_cells(drawn) for cell in row) == blocks


def test_two_blocks_on_a_unit() -> None:
    drawn = wave_map(5, 4, 2, "SM")
    assert drawn is not None
    # Four units take one block each, then the fifth block is the first unit's second.
    some = "some block slots empty"
    assert named_cells(drawn) == [["busy", some, some, some]]


def test_edges_show() -> None:
    drawn = wave_map(4, 4, 1, "SM", lambda block: block == 3)
    assert drawn is not None
    assert named_cells(drawn) == [["busy"] * 3 + ["tile partly outside the matrix"]]


def test_many_waves_keep_the_first_and_the_last() -> None:
    drawn = wave_map(132 * 1000 + 7, 132, 1, "SM")
    assert drawn is not None
    assert len(drawn.values) == 10
    assert drawn.y_labels[4] == "5-996"
    assert sum(cell != "idle" for cell in named_cells(drawn)[-1]) == 7


def test_many_units_share_columns() -> None:
    drawn = wave_map(304, 304, 1, "CU")
    assert drawn is not None
    assert len(drawn.values[0]) == 152
    part = wave_map(1, 304, 1, "CU")
    assert part is not None
    assert named_cells(part)[0][:2] == ["some block slots empty", "idle"]


def test_one_unit_needs_no_map() -> None:
    assert wave_map(10, 1, 1, "TensorCore") is None


def test_only_what_is_there_is_named() -> None:
    drawn = wave_map(8, 4, 1, "SM")
    assert drawn is not None
    assert list(drawn.classes) == ["busy"]
    assert len(drawn.roles) == 1
