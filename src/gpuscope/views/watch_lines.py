"""Lines on the live view's screen of which only those that changed are sent to the terminal.

A `Static` of textual is laid out, cut and drawn as a whole with each new content; the live view
gives it some thirty lines a second for hours, of which some ten are new.
"""

from __future__ import annotations

import io
from collections.abc import Hashable
from copy import copy
from itertools import zip_longest

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpuscope.views.terminal.console import Terminal, harmless_segments
from gpuscope.views.watch_rows import Rows

Drawn = list[list[Segment]]
"""Lines as rich draws them."""

PLAIN = Terminal(width=80, color_system="truecolor", legacy_windows=False, file=io.StringIO())
"""Draws lines; prints nothing."""


MOST_KEPT = 200
"""Texts whose lines are kept: most of a screen's sentences are those of a second ago."""

_KEPT: dict[Hashable, Drawn] = {}


def drawn(what: RenderableType, width: int) -> Drawn:
    """Draw something at a width.

    The same lines as rich draws. It takes a panel's lines apart and together again once for its
    border, once for its padding and once for the group within; here they are made once.
    """
    if isinstance(what, Group):
        return [line for part in what.renderables for line in drawn(part, width)]
    if isinstance(what, Rows):
        return what.segments(PLAIN, width)
    if isinstance(what, Panel) and isinstance(what.renderable, Group):
        return _framed(what, width)
    key = _key(what, width)
    if key is None:
        return _by_rich(what, width)
    if key not in _KEPT:
        if len(_KEPT) >= MOST_KEPT:
            _KEPT.clear()
        _KEPT[key] = _by_rich(what, width)
    return _KEPT[key]


def _by_rich(what: RenderableType, width: int) -> Drawn:
    return PLAIN.render_lines(what, PLAIN.options.update_width(width), pad=False)


def _key(what: RenderableType, width: int) -> Hashable:
    """What the lines of a text, or of texts side by side, depend on; None for anything else."""
    if isinstance(what, Text):
        return width, what.plain, what.style, tuple(what.spans)
    if isinstance(what, Columns) and all(isinstance(each, Text) for each in what.renderables):
        return width, what.padding, tuple(_key(each, 0) for each in what.renderables)
    return None


def _framed(panel: Panel, width: int) -> Drawn:
    """A panel's lines: its border as rich draws it around a blank, around the lines within."""
    empty = copy(panel)
    empty.renderable = ""
    top, blank, bottom = _by_rich(empty, min(width, panel.width or width))
    _, right, _, left = Padding.unpack(panel.padding)
    columns = sum(segment.cell_length for segment in blank) - 2 - left - right
    before = [blank[0], Segment(" " * left)]
    after = [Segment(" " * right), blank[-1]]
    inside = drawn(panel.renderable, columns)
    lines = [
        [*before, *Segment.adjust_line_length(line, columns, PLAIN.get_style("none")), *after]
        for line in inside
    ]
    return [top, *lines, bottom]


class Lines(ScrollView, can_focus=False):
    """Shows lines; those beyond its height can be scrolled to.

    Its height is that of its lines, unless the style sheet says another.
    """

    DEFAULT_CSS = """
    Lines { height: auto; overflow-x: hidden; overflow-y: auto; }
    """

    def __init__(self, id: str) -> None:
        """Start without lines."""
        super().__init__(id=id)
        self._lines: Drawn = []
        self._strips: list[Strip] = []
        self._style = Style.null()

    def put(self, what: RenderableType | None, width: int) -> None:
        """Show this from now on.

        Args:
            what: anything that rich draws; None takes the whole part away.
            width: columns.
        """
        self.display = what is not None
        new = [] if what is None else drawn(what, width)
        old, self._lines = self._lines, new
        changed = [y for y, (a, b) in enumerate(zip_longest(old, new)) if a != b]
        strips = self._strips[: len(new)] + [Strip.blank(0)] * (len(new) - len(old))
        for y in changed:
            if y < len(new):
                strips[y] = Strip(harmless_segments(new[y]))
        self._strips = strips
        self._style = self.rich_style  # worked out from the style sheet: not for each line
        if len(new) != len(old):
            self.virtual_size = Size(0, len(new))
            self.refresh(layout=True)
            return
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.size.height
        seen = [Region(0, y - top, self.size.width, 1) for y in changed if top <= y < bottom]
        if seen:
            self.refresh(*seen)

    def render_line(self, y: int) -> Strip:
        """Return one line of what is to be seen."""
        at = y + self.scroll_offset.y
        strip = self._strips[at] if at < len(self._strips) else Strip.blank(0)
        width = self.size.width
        return strip.adjust_cell_length(width).apply_style(self._style)
