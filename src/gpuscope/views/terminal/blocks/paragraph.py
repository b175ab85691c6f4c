"""A few sentences."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gpuscope.document.blocks import Paragraph
from gpuscope.views.quantities import words
from gpuscope.views.terminal.blocks.roles import TONES


def paragraph(block: Paragraph, lang: str) -> RenderableType:
    """The sentences, with a sign in front where they are more than plain."""
    sign, style = TONES[block.tone]
    text = Text(words(block.text, lang), style=style)
    if not sign:
        return text
    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text(sign.strip(), style=style), text)
    return grid
