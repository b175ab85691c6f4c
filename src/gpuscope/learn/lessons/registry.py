"""Lessons by name, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpuscope.document.blocks import Book, Explanation
from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError
from gpuscope.registry import Registry


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
    title: Text
    question: Text
    make: Callable[[], Explanation]


LESSONS = Registry[Lesson](Text("lesson"), "gpuscope.learn.lessons", "gpuscope learn")


def lesson(
    name: str, number: int, title: Text, question: Text
) -> Callable[[Callable[[], Explanation]], Callable[[], Explanation]]:
    """Register a lesson; arguments as `Lesson`'s."""

    def register(make: Callable[[], Explanation]) -> Callable[[], Explanation]:
        LESSONS.add(name, Lesson(name, number, title, question, make))
        return make

    return register


def lesson_names() -> tuple[Lesson, ...]:
    """All lessons, in reading order; none is computed."""
    return tuple(sorted(LESSONS, key=lambda each: each.number))


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
        title=Text("How a GPU works"),
        about=Text(
            "Short lessons. Every figure is computed by gpuscope's own models, or was measured on "
            "a real GPU; the sliders move them."
        ),
        chapters=tuple(_made(each) for each in lesson_names()),
    )


def _made(found: Lesson) -> Explanation:
    title = Text("{number}. {title}", number=found.number, title=found.title)
    return replace(found.make(), topic="lesson", key=found.name, title=title)
