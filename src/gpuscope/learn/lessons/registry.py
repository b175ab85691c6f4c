"""Lessons by name, in the order in which they are read."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace

from gpuscope.errors import UnknownNameError
from gpuscope.explain.types import Book, Explanation, Words


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson.

    Attributes:
        name: a stable word.
        number: its place in the book, from 1.
        title: what it is about.
        question: what the reader can answer after it.
        make: makes the page; computes everything anew.
    """

    name: str
    number: int
    title: Words
    question: Words
    make: Callable[[], Explanation]


_LESSONS: dict[str, Lesson] = {}
_loaded = False


def lesson(
    name: str, number: int, title: Words, question: Words
) -> Callable[[Callable[[], Explanation]], Callable[[], Explanation]]:
    """Register a lesson; arguments as `Lesson`'s."""

    def register(make: Callable[[], Explanation]) -> Callable[[], Explanation]:
        taken = next((each.name for each in _LESSONS.values() if each.number == number), name)
        if taken != name:
            raise ValueError(f"lessons {taken} and {name} have one number")
        _LESSONS[name] = Lesson(name, number, title, question, make)
        return make

    return register


def lesson_names() -> tuple[Lesson, ...]:
    """All lessons, in reading order; none is computed."""
    global _loaded
    if not _loaded:
        import gpuscope.learn.lessons as package

        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"gpuscope.learn.lessons.{module.name}")
        _loaded = True
    return tuple(sorted(_LESSONS.values(), key=lambda each: each.number))


def lesson_named(name: str) -> Explanation:
    """Compute a lesson.

    Args:
        name: its name, or its number as text.

    Raises:
        UnknownNameError: no such lesson.
    """
    known = lesson_names()
    found = next((each for each in known if name in (each.name, str(each.number))), None)
    if found is None:
        raise UnknownNameError(
            "lesson", name, [each.name for each in known], "Type: gpuscope learn"
        )
    return _made(found)


def book() -> Book:
    """Compute all lessons as one book."""
    return Book(
        title=Words("How a GPU works", "GPU 是怎样工作的"),
        about=Words(
            "Short lessons. Every figure is computed by gpuscope's own models, or was measured on "
            "a real GPU; the sliders move them.",
            "一组短课。每个数字都由 gpuscope 自己的模型算出，或在真实的 GPU 上测得；"
            "拖动滑块即可改变它们。",
        ),
        chapters=tuple(_made(each) for each in lesson_names()),
    )


def _made(found: Lesson) -> Explanation:
    title = Words(f"{found.number}. {found.title.en}", f"{found.number}. {found.title.zh}")
    return replace(found.make(), topic="lesson", key=found.name, title=title)
