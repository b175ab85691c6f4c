"""Blocks of an explanation, found by sort and title."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from gpuscope.document.blocks import Block, Explanation, Facts, HeatMap
from gpuscope.document.text import Text, render

Sort = TypeVar("Sort")


def blocks(explanation: Explanation, sort: type[Sort]) -> list[Sort]:
    """All blocks of one sort."""
    found: Iterator[Block] = (b for s in explanation.sections for b in s.blocks)
    return [block for block in found if isinstance(block, sort)]


def titled(explanation: Explanation, sort: type[Sort], begins: str) -> Sort:
    """The block of a sort whose English title begins so."""
    for block in blocks(explanation, sort):
        title = getattr(block, "title", None)
        if isinstance(title, Text) and title.startswith(begins):
            return block
    raise AssertionError(f"no {sort.__name__} '{begins}...'")


def fact(explanation: Explanation, begins: str) -> float:
    """The figure whose English label begins so."""
    for group in blocks(explanation, Facts):
        for row in group.rows:
            if row.label.startswith(begins):
                assert isinstance(row.value, (int, float)), row
                return float(row.value)
    raise AssertionError(f"no fact '{begins}...'")


def told(explanation: Explanation, begins: str) -> str:
    """The text, in English, of the fact whose English label begins so."""
    for group in blocks(explanation, Facts):
        for row in group.rows:
            if row.label.startswith(begins):
                return row.value if isinstance(row.value, Text) else str(row.value)
    raise AssertionError(f"no fact '{begins}...'")


def named_cells(drawn: HeatMap) -> list[list[str]]:
    """The cells of a map of sorts by the English names of their classes."""
    return [[drawn.classes[int(cell)] for cell in row if cell is not None] for row in drawn.values]


def all_words(value: object) -> Iterator[Text]:
    """Every text in two languages, at any depth."""
    if isinstance(value, Text):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from all_words(item)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from all_words(getattr(value, name))


def sound(explanation: Explanation) -> None:
    """What must hold of every explanation: both languages, whole tables, whole explorers."""
    from gpuscope.document.blocks import Explorer, Lines, Table

    for words in all_words(explanation):
        assert words, words
        assert render(words, "zh"), words
    assert 2 <= len(explanation.summary) <= 5
    for table in blocks(explanation, Table):
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert all(0 <= at < len(table.rows) for at in table.marked)
    for lines in blocks(explanation, Lines):
        assert all(len(series.x) == len(series.y) for series in lines.series)
    for drawn in blocks(explanation, HeatMap):
        assert len({len(row) for row in drawn.values}) == 1
        assert not drawn.y_labels or len(drawn.y_labels) == len(drawn.values)
    for explorer in blocks(explanation, Explorer):
        combinations = 1
        for slider in explorer.sliders:
            combinations *= len(slider.values)
            assert 0 <= slider.start < len(slider.values)
        assert 1 <= len(explorer.sliders) <= 4
        assert combinations <= 20_000
        assert all(len(output.values) == combinations for output in explorer.outputs)
        assert explorer.x in {slider.key for slider in explorer.sliders}
