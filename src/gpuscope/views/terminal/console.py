"""The console that everything is printed on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.containers import Lines
from rich.segment import Segment
from rich.text import Text

from gpuscope.document.printable import printable
from gpuscope.views.line_breaks import line_ends

WIDTH = 100
"""Columns that output uses at most; wider terminals leave the rest empty."""


class Line(Text):
    """A text that breaks by `gpuscope.views.line_breaks`."""

    @classmethod
    def of(cls, text: Text) -> Line:
        """Return a text as one of these."""
        line = cls(
            text.plain,
            style=text.style,
            justify=text.justify,
            overflow=text.overflow,
            no_wrap=text.no_wrap,
            end=text.end,
            tab_size=text.tab_size,
        )
        line.spans = text.spans
        return line

    def wrap(self, console: Console, width: int, **how: Any) -> Lines:
        """Return its lines; a word that is wider than a line is cut as rich does it."""
        no_wrap = how.get("no_wrap")
        if self.no_wrap if no_wrap is None else no_wrap or how.get("overflow") == "ignore":
            return super().wrap(console, width, **how)
        lines = Lines()
        for line in self.split(allow_blank=True):
            parts = line.divide(line_ends(line.plain, width))
            for part in parts:
                if part is not parts[-1]:
                    part.rstrip()  # blanks at a break are no text that could be cut
                lines.extend(Text.wrap(part, console, width, **how))
        return lines


class Terminal(Console):
    """A console on which every text breaks by the rules of its language."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render anything; texts and strings as `Line`."""
        if isinstance(renderable, str):
            renderable = self.render_str(renderable)
        if isinstance(renderable, Text) and not isinstance(renderable, Line):
            renderable = Line.of(renderable)
        return super().render(renderable, options)

    @property
    def file(self) -> IO[str]:
        """Where it writes: the terminal itself, beyond the door and a spinner's own stand-in."""
        found = super().file
        while (beyond := getattr(found, "rich_proxied_file", found)) is not found:
            found = beyond
        return found

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        """Return what is written; the door for texts, whose styles are sequences of our own."""
        return super()._render_buffer(harmless_segments(buffer))


def harmless_segments(segments: Iterable[Segment]) -> list[Segment]:
    """Return segments that hold nothing which a terminal would obey, but rich's own controls."""
    return [
        segment
        if segment.control or segment.text.isprintable()
        else Segment(printable(segment.text), segment.style)
        for segment in segments
    ]


def make_console(file: IO[str] | None = None, *, stderr: bool = False) -> Console:
    """Return a console of at most `WIDTH` columns; a pipe gets plain text of `WIDTH` columns."""
    console = Terminal(file=file, stderr=stderr, highlight=False, emoji=False, markup=False)
    # A pipe has no width; rich would take 80 and cut tables.
    console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH
    return console
