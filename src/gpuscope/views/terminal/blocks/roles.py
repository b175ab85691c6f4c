"""How a role and a tone look: a colour where there is one, a glyph where there is none."""

from __future__ import annotations

from gpuscope.document.blocks import Role, Tone

STYLES: dict[Role, str] = {
    "compute": "blue",
    "tensor": "bright_blue",
    "memory": "magenta",
    "l2": "bright_magenta",
    "shared": "yellow",
    "launch": "bright_yellow",
    "communication": "cyan",
    "copy": "green",
    "host": "bright_cyan",
    "idle": "bright_black",
    "tail": "red",
    "waste": "red",
    "good": "green",
    "bad": "red",
    "reference": "white",
    "other": "bright_black",
}
"""Colour of each role in the terminal."""

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
    return row[number % len(row)] if role == "other" else STYLES[role]
