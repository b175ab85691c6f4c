"""Boxes and the flows between them; an algorithm's steps beside each other."""

from __future__ import annotations

import math
from typing import Any

from gpuscope.document.blocks import Diagram, Link, Node
from gpuscope.document.quantities import ByteRate
from gpuscope.document.text import Text, sentences
from gpuscope.views.i18n import tr
from gpuscope.views.palette import COLOURS
from gpuscope.views.pictures.frame import sheet
from gpuscope.views.pictures.style import FAINT, INK, QUIET, pale, wrapped
from gpuscope.views.quantities import cell, words

Point = tuple[float, float]

_MOST_PANELS = 8
_MOST_CELLS = 264

_KINDS = {
    "host": "host",
    "host memory": "copy",
    "device": "compute",
    "memory": "memory",
    "cache": "l2",
    "compute": "tensor",
    "switch": "communication",
    "nic": "communication",
    "rank": "compute",
    "block": "launch",
}
"""The role whose colour a sort of box takes."""


def draw(block: Diagram, lang: str) -> Any:
    """Return the figure: one panel, or one for each of the first steps."""
    panels: list[int | None] = [*range(min(len(block.steps), _MOST_PANELS))] or [None]
    across = 1 if len(panels) <= 2 else 3 if len(panels) > 4 else 2
    down = math.ceil(len(panels) / across)
    figure = sheet(block.title, _note(block), down * (2.9 if len(panels) > 1 else 3.6), lang)
    for number, step in enumerate(panels):
        axes = figure.add_subplot(down, across, number + 1)
        if step is not None:
            text = wrapped(f"{step + 1}. {words(block.steps[step], lang)}", 96 // across)
            axes.set_title(text, fontsize=8, loc="left", color=QUIET)
        _panel(axes, block, step, lang, small=across > 1)
    if len(block.steps) > _MOST_PANELS:
        more = len(block.steps) - _MOST_PANELS
        figure.text(
            0.99,
            0.005,
            tr("and {n} more steps of the same kind", lang, n=more),
            ha="right",
            fontsize=7.5,
            color=QUIET,
        )
    return figure


def _panel(axes: Any, block: Diagram, step: int | None, lang: str, small: bool) -> None:
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(1.02, -0.02)
    axes.set_axis_off()
    boxes = {node.key: node for node in block.nodes}
    used = [link for link in block.links if link.step is None or link.step == step]
    if step is None:
        used = list(block.links)
    pairs = {(link.a, link.b) for link in used}
    middle = (
        sum(node.x for node in block.nodes) / max(1, len(block.nodes)),
        sum(node.y for node in block.nodes) / max(1, len(block.nodes)),
    )
    brief = small and _common(block) is not None
    for link in used:
        if link.a in boxes and link.b in boxes:
            both = (link.b, link.a) in pairs
            text = words(link.label, lang) if brief else _flow(link, lang)
            _link(axes, link, boxes[link.a], boxes[link.b], text, middle, both, small)
    for node in block.nodes:
        _box(axes, node, lang, small)


def _common(block: Diagram) -> Link | None:
    """A link with the rates of all, where they are alike: then they are said once, in the note."""
    rates = {(link.bytes_per_s, link.limit_bytes_per_s) for link in block.links}
    return block.links[0] if block.steps and len(rates) == 1 else None


def _note(block: Diagram) -> Text | None:
    """The block's note, and the rate of every way where it is one."""
    common = _common(block)
    if common is None or common.bytes_per_s is None:
        return block.note
    rate, most = ByteRate(common.bytes_per_s), common.limit_bytes_per_s
    said = Text("Each way carries {rate}.", rate=rate)
    if most is not None:
        said = Text("Each way carries {rate} (≤ {most}).", rate=rate, most=ByteRate(most))
    return sentences(said, block.note)


def _box(axes: Any, node: Node, lang: str, small: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    colour = COLOURS[_KINDS.get(node.kind, "other")]  # type: ignore[index]
    left, top = node.x - node.width / 2, node.y - node.height / 2
    axes.add_patch(
        FancyBboxPatch(
            (left, top),
            node.width,
            node.height,
            boxstyle="round,pad=0,rounding_size=0.015",
            facecolor=pale(colour),
            edgecolor=colour,
            linewidth=1.0,
            zorder=3,
        )
    )
    if node.cells:
        _cells(axes, node, colour)
    size = 6.5 if small else 8
    # Cells fill the box, its name then stands at the top.
    y = top + (0.035 if node.cells else node.height * (0.36 if node.detail else 0.5))
    fitting = max(8, round(node.width * (90 if not small else 50)))
    axes.text(
        node.x,
        y,
        wrapped(words(node.label, lang), fitting),
        ha="center",
        va="center",
        fontsize=size,
        color=INK,
        zorder=5,
        fontweight="bold",
    )
    if node.detail is not None:
        low = top + node.height - 0.035 if node.cells else top + node.height * 0.7
        axes.text(
            node.x,
            low,
            wrapped(words(node.detail, lang), fitting + 6),
            ha="center",
            va="center",
            fontsize=size - 1,
            color=QUIET,
            zorder=5,
        )


def _cells(axes: Any, node: Node, colour: str) -> None:
    """A multiprocessor each, between the box's name and its second line."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    count = min(node.cells, _MOST_CELLS)
    width, height = node.width * 0.9, max(node.height - 0.15, node.height * 0.4)
    across = max(1, round(math.sqrt(count * width / height * 1.6)))
    down = math.ceil(count / across)
    left, top = node.x - width / 2, node.y - height / 2
    pieces = [
        Rectangle(
            (left + (i % across) * width / across, top + (i // across) * height / down),
            width / across * 0.8,
            height / down * 0.75,
        )
        for i in range(count)
    ]
    axes.add_collection(PatchCollection(pieces, facecolor=colour, linewidth=0, zorder=4))


def _link(
    axes: Any, link: Link, a: Node, b: Node, text: str, middle: Point, both: bool, small: bool
) -> None:
    from matplotlib.patches import FancyArrowPatch

    start, end = _edge(a, b), _edge(b, a)
    if both:  # there and back run beside each other
        away = math.hypot(end[0] - start[0], end[1] - start[1]) or 1.0
        dx, dy = -(end[1] - start[1]) / away * 0.02, (end[0] - start[0]) / away * 0.02
        start, end = (start[0] + dx, start[1] + dy), (end[0] + dx, end[1] + dy)
    colour = COLOURS["bad"] if link.narrowest else (INK if link.bytes_per_s else FAINT)
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>" if link.directed else "-",
            mutation_scale=9,
            linewidth=2.2 if link.narrowest else 1.2,
            color=colour,
            shrinkA=0,
            shrinkB=0,
            zorder=2,
        )
    )
    if text:
        colour = QUIET if colour == FAINT else colour
        x, y, place = _beside(start, end, middle, both)
        axes.text(
            x,
            y,
            text,
            fontsize=6 if small else 7,
            color=colour,
            zorder=6,
            **place,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
        )


def _beside(
    start: Point, end: Point, middle: Point, both: bool
) -> tuple[float, float, dict[str, str]]:
    """Where a way's text stands: on the side away from the picture's middle; of two ways there
    and back, each on its own side."""
    x, y = _middle(start, end)
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy) or 1.0
    across = (-dy / length, dx / length)
    side = across[0] * (x - middle[0]) + across[1] * (y - middle[1])
    if not both and abs(side) < 0.03:  # through the middle: above, or to the right
        side = -across[1] if abs(dx) >= abs(dy) else across[0]
    if not both and side < 0:
        across = (-across[0], -across[1])
    level = "top" if across[1] > 0.5 else "bottom" if across[1] < -0.5 else "center"
    stands = "left" if across[0] > 0.25 else "right" if across[0] < -0.25 else "center"
    return x + across[0] * 0.014, y + across[1] * 0.014, {"ha": stands, "va": level}


def _middle(start: Point, end: Point) -> Point:
    return (start[0] + end[0]) / 2, (start[1] + end[1]) / 2


def _flow(link: Link, lang: str) -> str:
    """What flows, how fast, and how fast it could."""
    known = [wrapped(words(link.label, lang), 26)] if link.label is not None else []
    if link.bytes_per_s is not None:
        known.append(cell(link.bytes_per_s, "bytes/s", lang))
    if link.limit_bytes_per_s is not None:
        known.append(f"≤ {cell(link.limit_bytes_per_s, 'bytes/s', lang)}")
    if link.narrowest:
        known.append(tr("narrowest", lang))
    return "\n".join(known)


def _edge(a: Node, b: Node) -> Point:
    """Where the straight way from box a to box b leaves a."""
    dx, dy = b.x - a.x, b.y - a.y
    reach = min(
        a.width / 2 / abs(dx) if dx else math.inf, a.height / 2 / abs(dy) if dy else math.inf
    )
    reach = min(reach, 0.5) if math.isfinite(reach) else 0.0
    return a.x + dx * reach, a.y + dy * reach
