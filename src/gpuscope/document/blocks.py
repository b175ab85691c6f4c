"""What an explanation is made of: texts, and figures as data.

One `Explanation` is shown in the terminal, as a page, as JSON, as static pictures and in a
notebook; none of these knows the topic, and no topic knows them. A figure is a *block*: a small
frozen dataclass with its data in SI units. A new sort of figure is a class here, and a renderer for
it in each view.

Units of values (`unit` fields) are those of `gpuscope.document.format`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuscope.document.printable import counted, one_line, short_repr
from gpuscope.document.text import Text

Cell = float | int | str | Text | None
"""A value of a table: a number in its column's unit, a name that is not translated, words, or None
("not available")."""

Tone = Literal["plain", "key", "good", "warning", "doubt"]

Role = Literal[
    "compute",
    "tensor",
    "memory",
    "l2",
    "shared",
    "sm",
    "launch",
    "instruction",
    "communication",
    "waiting",
    "copy",
    "device_copy",
    "host",
    "idle",
    "tail",
    "waste",
    "good",
    "bad",
    "reference",
    "other",
    "attention",
    "convolution",
    "normalization",
    "reduction",
    "pointwise",
    "gather",
    "sort",
    "optimizer",
    "recurrent",
    "memset",
    "random",
    "fused",
    "parameter",
    "gradient",
    "optimizer_state",
    "activation",
    "temporary",
    "buffer",
    "cache",
    "workspace",
    "made_in_backward",
]
"""What a part stands for; the same role has the same colour everywhere (`palette.json`)."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A few sentences.

    Attributes:
        text: the sentences.
        tone: "key" for the sentence to remember, "doubt" for what is not sure.
    """

    text: Text
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure with its name.

    Attributes:
        label: what it is.
        value: in SI units; text where it is not a number.
        unit: see the module.
        origin: measured, calibrated, datasheet, estimated, computed; "" if it needs none.
        low, high: 80 % interval, where there is one.
        note: how it follows, e.g. "4096 / 128 x 4096 / 256".
    """

    label: Text
    value: Cell
    unit: str = ""
    origin: str = ""
    low: float | None = None
    high: float | None = None
    note: Text | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """A list of figures."""

    rows: tuple[Fact, ...]
    title: Text | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading and the unit of its numbers."""

    label: Text
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells.

    Attributes:
        title: what the table shows.
        columns: one for each cell of a row.
        rows: the cells.
        marked: rows to stand out (the chosen one, the best one).
        note: what to see in it.
    """

    title: Text
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marked: tuple[int, ...] = ()
    note: Text | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One stretch of a stacked bar."""

    label: Text
    value: float
    role: Role = "other"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: a single part, or several stacked; in a waterfall it begins at `start`."""

    label: Cell
    parts: tuple[Part, ...]
    note: Text | None = None
    start: float = 0.0


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars on one scale.

    Attributes:
        title: what the bars show.
        unit: of the values.
        bars: top to bottom.
        limit: a line across all of them (a peak, a floor); None for none.
        limit_label: its name.
        note: what to see in it.
    """

    title: Text
    unit: str
    bars: tuple[Bar, ...]
    limit: float | None = None
    limit_label: Text | None = None
    note: Text | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: name, unit, whether it is logarithmic."""

    label: Text
    unit: str = ""
    log: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart; None in `y` is a gap. `low` and `high` make a band."""

    label: Text
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    shape: Literal["line", "steps", "points"] = "line"
    role: Role = "other"
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """A named place: a vertical line (only `x`), a horizontal one (only `y`), or a point."""

    label: Text
    x: float | None = None
    y: float | None = None
    role: Role = "reference"


@dataclass(frozen=True, slots=True)
class Lines:
    """Curves over a common axis, with marks."""

    title: Text
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    note: Text | None = None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Cells by row and column.

    Attributes:
        title: what it shows.
        x, y: the axes; `x_labels`, `y_labels` name columns and rows where numbers do not.
        values: rows from top to bottom; None is empty.
        unit: of the values, where `classes` is empty.
        classes: values are indexes into these words (a map of sorts, not of amounts).
        roles: the role of each class.
        note: what to see in it.
    """

    title: Text
    x: Axis
    y: Axis
    values: tuple[tuple[float | None, ...], ...]
    unit: str = ""
    classes: tuple[Text, ...] = ()
    roles: tuple[Role, ...] = ()
    x_labels: tuple[str, ...] = ()
    y_labels: tuple[str, ...] = ()
    note: Text | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A box of a diagram, in a unit square with y downwards.

    Attributes:
        key: how links name it.
        label: its text.
        kind: "host", "host memory", "device", "memory", "cache", "compute", "switch", "nic",
            "rank", "block".
        x, y: the centre.
        width, height: of the box.
        detail: more, for a tooltip or a second line.
        cells: how many small cells to draw inside (SMs of a device); 0 for none.
    """

    key: str
    label: Text
    kind: str
    x: float
    y: float
    width: float = 0.18
    height: float = 0.16
    detail: Text | None = None
    cells: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """A way between two boxes and what flows on it.

    Attributes:
        a, b: keys of the boxes; the flow goes from a to b where `directed`.
        label: what flows.
        bytes_per_s: flow; None if unknown.
        limit_bytes_per_s: what the way can carry; None if unknown.
        narrowest: whether this one sets the pace.
        step: number of the step in which it is used, from 0; None for always.
    """

    a: str
    b: str
    label: Text | None = None
    bytes_per_s: float | None = None
    limit_bytes_per_s: float | None = None
    narrowest: bool = False
    directed: bool = True
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Diagram:
    """Boxes and the flows between them; `steps` names the steps of an algorithm, in order."""

    title: Text
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    steps: tuple[Text, ...] = ()
    note: Text | None = None


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One line of source with a remark; `tone` colours it."""

    number: int
    text: str
    note: Text | None = None
    tone: Tone = "plain"

    def __post_init__(self) -> None:
        # A recorded line may hold anything; it stays one line, with its tabs.
        text = "\t".join(map(one_line, self.text.split("\t")))
        object.__setattr__(self, "text", text)


@dataclass(frozen=True, slots=True)
class Code:
    """Source text, line by line."""

    title: Text
    language: str
    lines: tuple[CodeLine, ...]
    note: Text | None = None


@dataclass(frozen=True, slots=True)
class Slider:
    """A quantity that the reader moves.

    Attributes:
        key: how `Explorer.reading` and `x` name it.
        label: its name.
        values: the stops, in order; numbers, or names (of dtypes, devices).
        unit: of the numbers.
        start: index of the stop at which it begins.
    """

    key: str
    label: Text
    values: tuple[float | str, ...]
    unit: str = ""
    start: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """A quantity that follows from the sliders, at every combination of stops.

    Attributes:
        key: how `Explorer.reading` names it.
        label: its name.
        unit: of the values.
        values: one for each combination, the last slider running fastest; texts or Text for a
            verdict, None where it does not exist.
        low, high: 80 % interval, same length; () for none.
        plotted: draw it over the axis slider (needs numbers).
        role: its colour.
    """

    key: str
    label: Text
    unit: str
    values: tuple[float | str | Text | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    plotted: bool = True
    role: Role = "other"


@dataclass(frozen=True, slots=True)
class Explorer:
    """A live figure: sliders, and what follows, all points computed beforehand by the models.

    Attributes:
        title: what it shows.
        sliders: one to four; the product of their stops is at most 20,000.
        outputs: what follows from them.
        x: key of the slider that is the chart's axis.
        log_x, log_y: logarithmic axes.
        reading: a sentence with {keys} of sliders and outputs, filled in as they move.
        note: what to see in it.
    """

    title: Text
    sliders: tuple[Slider, ...]
    outputs: tuple[Output, ...]
    x: str
    log_x: bool = False
    log_y: bool = False
    reading: Text | None = None
    note: Text | None = None


Block = Paragraph | Facts | Table | Bars | Lines | HeatMap | Diagram | Code | Explorer


@dataclass(frozen=True, slots=True)
class Section:
    """A titled group of blocks."""

    title: Text
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One thing explained.

    Attributes:
        topic: a stable word ("matmul", "collective", "lesson", ...).
        title: what is explained, with its figures.
        summary: the two to five sentences that matter, the most important first.
        sections: the depth.
        commands: what to type next, as shell commands.
        sources: where formulas and figures come from (papers, manuals), one line each.
        assumptions: what had to be assumed.
        key: a stable name within a book ("occupancy"); "" for one by itself.
    """

    topic: str
    title: Text
    summary: tuple[Text, ...]
    sections: tuple[Section, ...]
    commands: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    assumptions: tuple[Text, ...] = ()
    key: str = ""

    def __repr__(self) -> str:
        return short_repr(self, self.topic, counted(len(self.sections), "section"), self.title)


@dataclass(frozen=True, slots=True)
class Book:
    """Several explanations on one page, one shown at a time, with a table of contents."""

    title: Text
    chapters: tuple[Explanation, ...]
    about: Text | None = None
