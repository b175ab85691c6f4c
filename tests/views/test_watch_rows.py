"""Lines of cells in columns, by hand."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from gpuscope.views.watch_rows import Row, Rows, share_bar


def text(rows: Rows, width: int) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width).print(rows)
    return file.getvalue().splitlines()


def cell(word: str):
    return ((word, ""),)


def test_columns_stand_under_each_other() -> None:
    rows = Rows([Row((cell("a"), cell("1"))), Row((cell("显存"), cell("23")))], frozenset({1}))
    assert text(rows, 40) == ["a      1", "显存  23"]


def test_a_bar_takes_what_is_left() -> None:
    rows = Rows([Row((cell("ab"), share_bar(0.5, "blue"), cell("9")))], prefer=10, least=4)
    assert text(rows, 40) == ["ab  █████░░░░░  9"]
    assert text(rows, 13) == ["ab  ███░░░  9"]
    assert text(rows, 11) == ["ab  ██░░  9"]


def test_a_heading_gives_way_to_its_bar() -> None:
    rows = Rows([Row((cell("utilisation"),)), Row((share_bar(1.0, ""),))], prefer=6)
    assert text(rows, 40) == ["utili…", "██████"]


def test_a_tail_takes_the_rest_or_is_left_out() -> None:
    row = Row((cell("ab"),), lambda width: (("x" * width, ""),))
    assert text(Rows([row]), 20) == ["ab  " + "x" * 16]
    assert [line.rstrip() for line in text(Rows([row]), 10)] == ["ab"]


def test_a_bar_shrinks_for_the_tail() -> None:
    row = Row((share_bar(0.0, ""),), lambda width: (("x" * width, ""),))
    assert text(Rows([row], prefer=24, least=4), 20) == ["░" * 10 + "  " + "x" * 8]


words = st.text("abc显存 ", max_size=30)


@settings(deadline=None)
@given(st.lists(st.tuples(words, words, st.floats(0, 1)), max_size=5), st.integers(1, 120))
def test_no_line_is_longer_than_the_terminal(cells, width: int) -> None:
    rows = [
        Row((cell(a), share_bar(s, "blue"), cell(b)), lambda n: (("x" * n, ""),))
        for a, b, s in cells
    ]
    assert all(cell_len(line) <= width for line in text(Rows(rows, frozenset({2})), width))


def test_nothing_is_drawn_of_nothing() -> None:
    assert text(Rows([]), 20) == []
