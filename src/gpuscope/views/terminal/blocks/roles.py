"""How a role and a tone look: a colour where there is one, a glyph where there is none."""

from __future__ import annotations

from gpuscope.document.blocks import Role, Tone
from gpuscope.views.palette import COLOURS

FILLS = "█▒▓░▚╱▞╲"
"""Glyphs that tell parts apart without colour, in the order of a legend."""

TONES: dict[Tone, tuple[str, str]] = {
    "plain": ("", ""),
    "key": ("▸ ", "bold"),
    "good": ("✓ ", "green"),
    "warning": ("! ", "yellow"),
    "doubt": ("? ", "dim"),
}
"""Sign and style of each tone."""


def series_style(role: Role, number: int) -> str:
    """The colour of a curve: its role's, or the next of a row where it has no particular one."""
    row = ("blue", "magenta", "green", "yellow", "cyan", "red")
    return row[number % len(row)] if role == "other" else COLOURS[role]
