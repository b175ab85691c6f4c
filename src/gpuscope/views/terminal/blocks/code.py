"""Source text with a remark under the lines that have one."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gpuscope.document.blocks import Code
from gpuscope.views.quantities import words
from gpuscope.views.terminal.blocks.layout import titled
from gpuscope.views.terminal.blocks.roles import TONES


def code(block: Code, lang: str) -> RenderableType:
    """Numbered lines; those with a tone have its sign."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for line in block.lines:
        sign, style = TONES[line.tone]
        text = Text(line.text.expandtabs(4).rstrip(), style=style)
        grid.add_row(Text(sign.strip(), style=style), str(line.number), text)
        if line.note is not None:
            indent = len(line.text) - len(line.text.lstrip())
            note = Table.grid()
            note.add_row(" " * indent + "↳ ", words(line.note, lang))
            note.columns[0].no_wrap = True
            note.columns[1].overflow = "fold"  # else long words without spaces are cut
            grid.add_row("", "", note, style=style if style != "dim" else "cyan")
    return titled(words(block.title, lang), grid, note=block.note, lang=lang)
