"""Curves over a logarithmic axis as SVG, for the page of a bench."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 14, 40
COLOURS = ("#2563eb", "#db2777", "#059669", "#d97706", "#7c3aed", "#0891b2", "#64748b")


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a chart: its name and (x, y) points; x is above 0."""

    name: str
    points: tuple[tuple[float, float], ...]


def chart(
    curves: Sequence[Curve],
    *,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
    x_label: str,
) -> str:
    """Return the curves as SVG, or "" if there is nothing to draw.

    Args:
        curves: drawn in their order; each needs a point.
        x_text: how a value of the logarithmic axis is written.
        y_text: how a value of the linear axis is written; it begins at 0.
        x_label: what the x axis is.
    """
    drawn = [c for c in curves if c.points]
    if not drawn:
        return ""
    xs = [x for c in drawn for x, _ in c.points]
    top = max(y for c in drawn for _, y in c.points)
    low, high = math.log2(min(xs)), math.log2(max(xs))
    span = (high - low) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (math.log2(x) - low) / span * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - y / (top or 1.0) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">']
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        _, at = place(2**low, share * top)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
        parts.append(
            f'<text class="end" x="{LEFT - 6}" y="{at + 4:.1f}">'
            f"{html.escape(y_text(share * top))}</text>"
        )
    for x in _ticks(low, high):
        across, _ = place(x, 0.0)
        parts.append(
            f'<text class="mid" x="{across:.1f}" y="{HEIGHT - BOTTOM + 16}">'
            f"{html.escape(x_text(x))}</text>"
        )
    parts.append(
        f'<text class="mid" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}">'
        f"{html.escape(x_label)}</text>"
    )
    for number, curve in enumerate(drawn):
        colour = COLOURS[number % len(COLOURS)]
        placed = [place(x, y) for x, y in sorted(curve.points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in placed]
        at = TOP + 14 + 18 * number
        parts.append(
            f'<text x="{WIDTH - RIGHT + 12}" y="{at}"><tspan fill="{colour}">'
            f"{html.escape(curve.name)}</tspan></text>"
        )
    return "".join((*parts, "</svg>"))


def _ticks(low: float, high: float) -> list[float]:
    """About six powers of two inside the axis."""
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    step = max(1, round((last - first) / 5))
    return [float(2**n) for n in range(first, last + 1, step)]
