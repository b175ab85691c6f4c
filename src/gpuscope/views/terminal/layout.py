"""Sections, tables and bars: the same look in every panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from gpuscope.views.palette import COLOURS, class_role
from gpuscope.views.terminal.fitting import BarsColumn, FiguresColumn, FittingTable

LEAST_BAR = 4
"""Cells below which a bar says nothing."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def section(title: str, about: str, *body: RenderableType) -> Group:
    """A titled block: what it shows, one quiet sentence on how to read it, and the body."""
    heading: list[RenderableType] = [Text(), Text(title, style="bold")]
    if about:
        heading.append(Padding(Text(about, style="dim"), (0, 0, 0, 2)))
    return Group(*heading, *(Padding(part, (0, 0, 0, 2)) for part in body))


def table(*columns: Column | str, header: bool = True) -> Table:
    """A table without lines; how it gives way where it is narrow, `FittingTable` says."""
    return FittingTable(
        *columns,
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="dim",
        show_header=header,
    )


def left(title: str = "", ratio: int | None = None) -> Column:
    """A column of words: the first to give way where a terminal is narrow.

    It breaks over lines; with a ratio it takes what the others leave and is cut instead.
    """
    cut = ratio is not None
    return Column(title, no_wrap=cut, overflow="ellipsis" if cut else "fold", ratio=ratio)


def bars(title: str = "") -> Column:
    """A column of `Bar`s, which get shorter where a terminal is narrow."""
    return BarsColumn(title)


def right(title: str = "") -> Column:
    """A column of figures, never cut."""
    return FiguresColumn(title, justify="right", no_wrap=True)


def bar(
    share: float, width: int = 20, style: str = "blue", rest: str = " ", start: float = 0.0
) -> Text:
    """A bar of `width` cells filled by `share` (0 to 1), to an eighth of a cell.

    Args:
        rest: what fills the empty cells: a blank, or "░" where the whole means something.
        start: where it begins (0 to 1), to a cell: a step of a waterfall.
    """
    if share != share or start != start:  # not known
        return Text(rest * width, "dim")
    before = min(width - 1, round(min(max(start, 0.0), 1.0) * width))
    eighths = round(min(max(start + share, 0.0), 1.0) * width * 8) - before * 8
    eighths = max(1, eighths) if share > 0 else 0
    full, part = divmod(eighths, 8)
    filled = "█" * full + (_EIGHTHS[part] if part else "")
    after = rest * (width - before - len(filled))
    return Text.assemble((rest * before, "dim"), (filled, style), (after, "dim"))


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar for a table's cell: `width` cells where there is room, down to `LEAST_BAR`.

    Attributes as the arguments of `bar`.
    """

    share: float
    width: int = 20
    style: str = "blue"
    rest: str = " "
    start: float = 0.0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it in the room there is."""
        width = min(self.width, options.max_width)
        yield bar(self.share, width, self.style, self.rest, self.start)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """State the least and the best width."""
        return Measurement(min(LEAST_BAR, self.width), self.width)


def area(values: Sequence[float], height: int) -> str:
    """A filled curve from zero to the highest value: one column a value, `height` lines."""
    steps, top = " ▁▂▃▄▅▆▇█", max(values, default=0.0)
    if top <= 0:
        return ""
    eighths = [round(value / top * height * 8) for value in values]
    lines = (
        "".join(steps[min(8, max(0, cell - 8 * row))] for cell in eighths)
        for row in reversed(range(height))
    )
    return "\n".join(lines)


def class_style(label: str) -> str:
    """The colour of a time class."""
    return COLOURS[class_role(label)]
