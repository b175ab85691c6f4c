"""How pictures look: colours by role, sizes, and matplotlib's settings for repeatable files."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable
from typing import Any

from gpuscope.document.blocks import Bars, Role
from gpuscope.views.line_breaks import broken, columns
from gpuscope.views.palette import COLOURS
from gpuscope.views.pictures.fonts import families
from gpuscope.views.quantities import words

WIDTH_IN = 7.2
"""Inches: two columns of most papers' page."""

DPI = 200

INK, QUIET, FAINT, GRID = "#1b2430", "#5c6878", "#aab3bf", "#e4e8ee"

IDLE = "#d4d8de"
"""Idle time in bars: its colour at half strength, so that the eye goes to the work."""


def settings() -> dict[str, Any]:
    """Matplotlib's settings for every picture.

    Text becomes outlines, so that a file looks the same where a font is missing; a fixed salt makes
    equal figures equal files; `$` in a name is a letter, not the begin of a formula.
    """
    return {
        "font.family": families(),
        "font.size": 8.5,
        "text.color": INK,
        "text.parse_math": False,
        "axes.edgecolor": FAINT,
        "axes.labelcolor": QUIET,
        "axes.linewidth": 0.7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.unicode_minus": True,
        "grid.color": GRID,
        "grid.linewidth": 0.7,
        "xtick.color": QUIET,
        "ytick.color": QUIET,
        "xtick.major.size": 3,
        "ytick.major.size": 3,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "svg.fonttype": "path",
        "svg.hashsalt": "gpuscope",
        "path.simplify": True,
    }


def pale(colour: str) -> str:
    """Return a colour mixed with much white, for the inside of a box."""
    return "#" + "".join(
        f"{round(255 - (255 - int(colour[i : i + 2], 16)) * 0.16):02x}" for i in (1, 3, 5)
    )


def shade(colour: str, number: int) -> str:
    """Return a colour, or one of its tints: 0 is itself, then lighter and darker in turn."""
    if not number:
        return colour
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, light, full = colorsys.rgb_to_hls(red, green, blue)
    step = (number + 1) // 2 * 0.13
    light = min(0.86, light + step) if number % 2 else max(0.16, light - step)
    mixed = colorsys.hls_to_rgb((hue + 0.03 * number) % 1.0, light, full)
    return "#" + "".join(f"{round(part * 255):02x}" for part in mixed)


def colours(named: Iterable[tuple[str, Role]]) -> dict[tuple[str, Role], str]:
    """Return a colour for each name: its role's, told apart by shade where two would be alike."""
    found: dict[tuple[str, Role], str] = {}
    used: dict[str, int] = {}
    for name, role in named:
        if (name, role) not in found:
            base = COLOURS[role]
            number = 0 if role == "idle" else used.get(base, 0)
            found[name, role] = IDLE if role == "idle" else shade(base, number)
            used[base] = number + 1
    return found


def part_colours(block: Bars, lang: str) -> dict[tuple[str, Role], str]:
    """Return a colour for each part of bars by its name and role.

    Bars of one part each, that need no legend, need no shades either.
    """
    named = [(words(part.label, lang), part.role) for bar in block.bars for part in bar.parts]
    if needs_no_legend(block):
        return {key: IDLE if key[1] == "idle" else COLOURS[key[1]] for key in named}
    return colours(named)


def needs_no_legend(block: Bars) -> bool:
    """Return whether each bar is one part, unlike all others: the bars' own names say it all."""
    labels = [part.label for bar in block.bars for part in bar.parts]
    return all(len(bar.parts) == 1 for bar in block.bars) and len(set(labels)) == len(labels)


def wrapped(text: str, width: int = 104) -> str:
    """Return a text broken into lines of at most `width` Latin letters."""
    return "\n".join(broken(" ".join(text.split()), width))


def shortened(text: str, width: int) -> str:
    """Return a text of at most `width` Latin letters, its middle left out where it is longer."""
    if columns(text) <= width:
        return text
    if columns(text) != len(text):
        kept = ""
        for letter in text:
            if columns(kept + letter) >= width:
                break
            kept += letter
        return kept + "…"
    ahead = (width - 1) * 2 // 3
    return text[:ahead] + "…" + text[len(text) - (width - 1 - ahead) :]
