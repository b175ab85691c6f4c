"""The lessons: complete, in both languages, with figures that obey the arithmetic they teach."""

from __future__ import annotations

import math
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from gpuscope.document.blocks import Explanation, Explorer, Lines
from gpuscope.document.plain import dumps
from gpuscope.document.text import Text, render
from gpuscope.errors import UnknownNameError
from gpuscope.learn.lessons import book, lesson_named, lesson_names
from gpuscope.learn.lessons.banks import ways
from gpuscope.learn.lessons.coalescing import sectors
from gpuscope.views.explanation import book_document
from gpuscope.views.explanation_terminal import render_explanation

NAMES = [each.name for each in lesson_names()]
MADE: dict[str, Explanation] = {}


def made(name: str) -> Explanation:
    if name not in MADE:
        MADE[name] = lesson_named(name)
    return MADE[name]


def blocks(explanation: Explanation, kind: type) -> list:
    return [b for s in explanation.sections for b in s.blocks if isinstance(b, kind)]


def words(value: object) -> list[Text]:
    if isinstance(value, Text):
        return [value]
    if is_dataclass(value) and not isinstance(value, type):
        return [w for f in fields(value) for w in words(getattr(value, f.name))]
    if isinstance(value, tuple):
        return [w for item in value for w in words(item)]
    return []


def test_they_are_numbered_without_gaps() -> None:
    assert [each.number for each in lesson_names()] == list(range(1, len(NAMES) + 1))


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_has_a_live_figure_and_something_to_type(name: str) -> None:
    lesson = made(name)
    assert blocks(lesson, Explorer), "no live figure"
    assert lesson.commands
    assert all(command.startswith("gpuscope ") for command in lesson.commands)
    assert lesson.sources
    assert 2 <= len(lesson.summary) <= 5


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_said_in_both_languages(name: str) -> None:
    for text in words(made(name)):
        assert bool(text.strip()) == bool(render(text, "zh").strip()), text
        # A text of several English words that is the same in Chinese was forgotten.
        if len(re.findall(r"[a-z]{3,}", text)) > 2:
            assert re.search(r"[一-鿿]", render(text, "zh")), text


@pytest.mark.parametrize("name", NAMES)
def test_live_figures_have_a_value_for_every_place_of_the_sliders(name: str) -> None:
    for explorer in blocks(made(name), Explorer):
        size = math.prod(len(slider.values) for slider in explorer.sliders)
        assert size <= 20_000
        assert all(len(output.values) == size for output in explorer.outputs)
        assert explorer.x in [slider.key for slider in explorer.sliders]
        assert all(0 <= slider.start < len(slider.values) for slider in explorer.sliders)
        known = {s.key for s in explorer.sliders} | {o.key for o in explorer.outputs}
        if explorer.reading is not None:
            for text in (explorer.reading, render(explorer.reading, "zh")):
                assert set(re.findall(r"\{(\w+)\}", text)) <= known
    for lines in blocks(made(name), Lines):
        assert all(len(series.x) == len(series.y) for series in lines.series)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_it_prints(name: str, lang: str) -> None:
    assert len(render_explanation(made(name), lang)) > 3


def test_the_book_holds_them_all() -> None:
    document = book_document(book())
    assert [chapter["key"] for chapter in document["chapters"]] == NAMES
    assert dumps(document)


def test_unknown_lessons_are_refused_with_the_near_ones() -> None:
    with pytest.raises(UnknownNameError, match="waves"):
        lesson_named("wave")
    assert lesson_named("1").key == NAMES[0]


@pytest.mark.parametrize(("stride", "count"), [(1, 4), (2, 8), (4, 16), (8, 32), (32, 32)])
def test_sectors_of_a_warp(stride: int, count: int) -> None:
    assert sectors(stride) == count
    assert sectors(1, offset=1) == 5


@pytest.mark.parametrize(("stride", "passes"), [(1, 1), (2, 2), (3, 1), (32, 32), (33, 1)])
def test_passes_over_the_banks(stride: int, passes: int) -> None:
    assert ways(stride) == passes


@pytest.mark.parametrize(("page", "lang"), [("learn.md", "en"), ("learn.zh-CN.md", "zh")])
def test_the_documentation_lists_them(page: str, lang: str) -> None:
    text = (Path(__file__).parents[3] / "docs" / page).read_text("utf-8").replace("`", "")
    for each in lesson_names():
        question = render(each.question, lang).replace("`", "")
        assert f"| {each.number} | {each.name} | {question} |" in text
