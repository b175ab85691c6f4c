"""Sizes around one: windows, curves and cliffs on functions whose answers are known."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.document.text import Text
from gpuscope.explanation.neighbours import (
    Priced,
    Sizes,
    cliffs,
    curve,
    curve_lines,
    neighbour_table,
    octaves,
    span,
    window,
)


def _stairs(sizes: Sizes) -> Priced:
    """A second for each 1000 columns begun."""
    return Priced(float(ceil(sizes["N"] / 1000)), float(sizes["N"]))


def test_cliffs_of_stairs_are_the_multiples() -> None:
    found = curve({"N": 2400}, "N", range(1200, 3600, 8), _stairs)
    assert [at for at, _ in cliffs(found)] == [2000, 3000]


def test_the_free_room_ends_at_the_stair() -> None:
    table = neighbour_table({"N": 2900}, {"N": Text("N")}, _stairs)
    free = [row for row in table.rows if "room" in row[1]]  # type: ignore[union-attr]
    assert [row[0] for row in free] == ["N = 2944"]  # type: ignore[union-attr]
    assert free[0][3] == 1.0
    assert free[0][5] == pytest.approx(2900 / 2944)


@given(st.integers(1, 10**6))
def test_windows_hold_the_size_and_nothing_below_one(size: int) -> None:
    for found in (window(size), span(size), octaves(size, 1, 2 * size)):
        assert size in found
        assert min(found) >= 1
        assert list(found) == sorted(set(found))
        assert len(found) <= 300


def test_lines_mark_where_one_is() -> None:
    found = curve({"N": 2000}, "N", span(2000), _stairs)
    times, speeds = curve_lines(found, 2000, Text("N"), {"N": 2000})
    assert times.marks[0].x == 2000.0
    assert times.marks[0].y == 2.0
    assert speeds.marks[0].y == 1000.0
