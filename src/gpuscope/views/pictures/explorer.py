"""A live figure on paper: its curves at the stops at which its other sliders begin."""

from __future__ import annotations

from typing import Any

from gpuscope.document.blocks import Axis, Explorer, Lines, Mark, Output, Series, Slider
from gpuscope.document.quantities import quantity
from gpuscope.document.text import Text, joined, verbatim
from gpuscope.views.pictures import lines
from gpuscope.views.pictures.frame import sheet

_PANEL_IN = 2.3


def draw(block: Explorer, lang: str) -> Any:
    """Return the figure: outputs of one unit share a panel, all panels share the axis."""
    panels = curves(block)
    figure = sheet(block.title, _fixed(block), 0.5 + _PANEL_IN * max(1, len(panels)), lang)
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, number + 1)
        shown = lines.panel(axes, panel, lang)
        if len(shown) > 1:
            axes.legend(list(shown.values()), list(shown), loc="best")
    return figure


def curves(block: Explorer) -> list[Lines]:
    """Return what the page draws before a slider is moved, one chart a unit."""
    axis = next(s for s in block.sliders if s.key == block.x)
    places = [float(v) if not isinstance(v, str) else float(i) for i, v in enumerate(axis.values)]
    rows = stops(block)
    by_unit: dict[str, list[Output]] = {}
    for output in block.outputs:
        numbers = [output.values[row] for row in rows]
        if output.plotted and any(isinstance(n, int | float) for n in numbers):
            by_unit.setdefault(output.unit, []).append(output)
    named = tuple(Mark(verbatim(str(v)), x=float(i)) for i, v in enumerate(axis.values))
    return [
        Lines(
            block.title,
            Axis(axis.label, axis.unit, block.log_x),
            Axis(outputs[0].label if len(outputs) == 1 else verbatim(""), unit, block.log_y),
            tuple(_series(output, places, rows) for output in outputs),
            named if isinstance(axis.values[0], str) else (),
        )
        for unit, outputs in by_unit.items()
    ]


def stops(block: Explorer) -> list[int]:
    """Return the place in each output's values for each stop of the axis, the others at start."""
    rows = [0]
    for slider in block.sliders:
        chosen = range(len(slider.values)) if slider.key == block.x else (slider.start,)
        rows = [row * len(slider.values) + stop for row in rows for stop in chosen]
    return rows


def _series(output: Output, places: list[float], rows: list[int]) -> Series:
    taken = [output.values[row] for row in rows]
    y = tuple(float(v) if isinstance(v, int | float) else None for v in taken)
    low, high = (
        tuple(v for v in (side[row] for row in rows) if v is not None) if side else ()
        for side in (output.low, output.high)
    )
    whole = len(low) == len(high) == len(rows)
    return Series(
        output.label,
        tuple(places),
        y,
        role=output.role,
        low=low if whole else (),
        high=high if whole else (),
    )


def _fixed(block: Explorer) -> Text | None:
    """The note, and at which stops the other sliders stand."""
    others = [s for s in block.sliders if s.key != block.x]
    said = joined(_stop(slider) for slider in others)
    if not others:
        return block.note
    if block.note is None:
        return said
    return Text("{said}. {note}", said=said, note=block.note)


def _stop(slider: Slider) -> Text:
    value = slider.values[slider.start]
    shown = value if isinstance(value, str) else quantity(value, slider.unit)
    return joined((slider.label, verbatim(shown)), ": ")
