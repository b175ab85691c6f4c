"""Boxes and the flows between them; an algorithm's steps beside each other."""

from __future__ import annotations

import math
from typing import Any

from gpuscope.explain.types import Diagram, Link, Node
from gpuscope.views.i18n import tr
from gpuscope.views.pictures.frame import sheet
from gpuscope.views.pictures.style import FAINT, INK, QUIET, ROLE_COLOURS, pale, wrapped
from gpuscope.views.quantities import cell, words

Point = tuple[float, float]

_MOST_PANELS = 8
_MOST_CELLS = 264

_KINDS = {
    "host": "host", "host memory": "copy", "device": "compute", "memory": "memory", "cache": "l2",
    "compute": "tensor", "switch": "communication", "nic": "communication", "rank": "compute",
    "block": "launch",
}  # fmt: skip
"""The role whose colour a sort of box takes."""


def draw(block: Diagram, lang: str) -> Any:
    """Return the figure: one panel, or one for each of the first steps."""
    panels: list[int | None] = [*range(min(len(block.steps), _MOST_PANELS))] or [None]
    across = 1 if len(panels) == 1 else min(3 if len(panels) > 4 else 2, len(panels))
    down = math.ceil(len(panels) / across)
    figure = sheet(block.title, block.note, down * (3.6 if across == 1 else 2.9), lang)
    for number, step in enumerate(panels):
        axes = figure.add_subplot(down, across, number + 1)
        if step is not None:
            told = wrapped(f"{step + 1}. {words(block.steps[step], lang)}", 96 // across)
            axes.set_title(told, fontsize=8, loc="left", color=QUIET)
        _panel(axes, block, step, lang, small=across > 1)
    if len(block.steps) > _MOST_PANELS:
        more = len(block.steps) - _MOST_PANELS
        figure.text(
            0.99, 0.005, tr("and {n} more steps of the same kind", lang, n=more), ha="right",
            fontsize=7.5, color=QUIET,
        )  # fmt: skip
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
    for link in used:
        if link.a in boxes and link.b in boxes:
            both = (link.b, link.a) in pairs
            _link(axes, link, boxes[link.a], boxes[link.b], lang, both, small)
    for node in block.nodes:
        _box(axes, node, lang, small)


def _box(axes: Any, node: Node, lang: str, small: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    colour = ROLE_COLOURS[_KINDS.get(node.kind, "other")]  # type: ignore[index]
    left, top = node.x - node.width / 2, node.y - node.height / 2
    axes.add_patch(
        FancyBboxPatch(
            (left, top), node.width, node.height, boxstyle="round,pad=0,rounding_size=0.015",
            facecolor=pale(colour), edgecolor=colour, linewidth=1.0, zorder=3,
        )
    )  # fmt: skip
    if node.cells:
        _cells(axes, node, colour)
    size = 6.5 if small else 8
    # Cells fill the box, its name then stands at the top.
    y = top + (0.035 if node.cells else node.height * (0.36 if node.detail else 0.5))
    fitting = max(8, round(node.width * (90 if not small else 50)))
    axes.text(
        node.x, y, wrapped(words(node.label, lang), fitting), ha="center", va="center",
        fontsize=size, color=INK, zorder=5, fontweight="bold",
    )  # fmt: skip
    if node.detail is not None:
        low = top + node.height - 0.035 if node.cells else top + node.height * 0.7
        axes.text(
            node.x, low, wrapped(words(node.detail, lang), fitting + 6), ha="center", va="center",
            fontsize=size - 1, color=QUIET, zorder=5,
        )  # fmt: skip


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
            width / across * 0.8, height / down * 0.75,
        )
        for i in range(count)
    ]  # fmt: skip
    axes.add_collection(PatchCollection(pieces, facecolor=colour, linewidth=0, zorder=4))


def _link(axes: Any, link: Link, a: Node, b: Node, lang: str, both: bool, small: bool) -> None:
    from matplotlib.patches import FancyArrowPatch

    start, end = _edge(a, b), _edge(b, a)
    if both:  # there and back run beside each other
        away = math.hypot(end[0] - start[0], end[1] - start[1]) or 1.0
        dx, dy = -(end[1] - start[1]) / away * 0.02, (end[0] - start[0]) / away * 0.02
        start, end = (start[0] + dx, start[1] + dy), (end[0] + dx, end[1] + dy)
    colour = ROLE_COLOURS["bad"] if link.narrowest else (INK if link.bytes_per_s else FAINT)
    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>" if link.directed else "-", mutation_scale=9,
            linewidth=2.2 if link.narrowest else 1.2, color=colour, shrinkA=0, shrinkB=0, zorder=2,
        )
    )  # fmt: skip
    told = _flow(link, lang)
    if told:
        _told(axes, told, start, end, both, QUIET if colour == FAINT else colour, small)


def _told(
    axes: Any, told: str, start: Point, end: Point, both: bool, colour: str, small: bool
) -> None:
    """A way's text beside it: above one that lies, right of one that stands; of two ways side by
    side, each on its own outside."""
    (x, y), (dx, dy) = _middle(start, end), (end[0] - start[0], end[1] - start[1])
    place = {"ha": "center", "va": "bottom"}
    if abs(dx) >= abs(dy):
        below = both and dx < 0
        y, place["va"] = (y + 0.012, "top") if below else (y - 0.012, "bottom")
    else:
        left = both and dy > 0
        x, place["ha"] = (x - 0.01, "right") if left else (x + 0.01, "left")
        place["va"] = "center"
    axes.text(
        x, y, told, fontsize=6 if small else 7, color=colour, zorder=6, **place,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
    )  # fmt: skip


def _middle(start: Point, end: Point) -> Point:
    return (start[0] + end[0]) / 2, (start[1] + end[1]) / 2


def _flow(link: Link, lang: str) -> str:
    """What flows, how fast, and how fast it could."""
    told = [wrapped(words(link.label, lang), 26)] if link.label is not None else []
    if link.bytes_per_s is not None:
        told.append(cell(link.bytes_per_s, "bytes/s", lang))
    if link.limit_bytes_per_s is not None:
        told.append(f"≤ {cell(link.limit_bytes_per_s, 'bytes/s', lang)}")
    if link.narrowest:
        told.append(tr("narrowest", lang))
    return "\n".join(told)


def _edge(a: Node, b: Node) -> Point:
    """Where the straight way from box a to box b leaves a."""
    dx, dy = b.x - a.x, b.y - a.y
    reach = min(
        a.width / 2 / abs(dx) if dx else math.inf, a.height / 2 / abs(dy) if dy else math.inf
    )
    reach = min(reach, 0.5) if math.isfinite(reach) else 0.0
    return a.x + dx * reach, a.y + dy * reach
