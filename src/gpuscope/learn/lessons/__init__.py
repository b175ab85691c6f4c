"""Short lessons that run the real models, in two languages: one file each.

A lesson is a function that returns an `Explanation` with a live figure and a command to try. Write
one, decorate it with `@lesson`, put it in this folder; `gpuscope learn` finds it.
"""

from gpuscope.learn.lessons.registry import book, lesson_named, lesson_names

__all__ = ["book", "lesson_named", "lesson_names"]
