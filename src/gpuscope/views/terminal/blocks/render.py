"""Any block for the terminal, by the file that draws its sort."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import RenderableType

from gpuscope.document.blocks import (
    Bars,
    Block,
    Code,
    Diagram,
    Explorer,
    Facts,
    HeatMap,
    Lines,
    Paragraph,
    Table,
)
from gpuscope.views.terminal.blocks.bars import bars
from gpuscope.views.terminal.blocks.code import code
from gpuscope.views.terminal.blocks.diagram import diagram
from gpuscope.views.terminal.blocks.explorer import explorer
from gpuscope.views.terminal.blocks.facts import facts
from gpuscope.views.terminal.blocks.heat_map import heat_map
from gpuscope.views.terminal.blocks.lines import lines
from gpuscope.views.terminal.blocks.paragraph import paragraph
from gpuscope.views.terminal.blocks.table import table

_RENDERERS: Mapping[type, Callable[[Any, str], RenderableType]] = {
    Paragraph: paragraph,
    Facts: facts,
    Table: table,
    Bars: bars,
    Lines: lines,
    HeatMap: heat_map,
    Diagram: diagram,
    Code: code,
    Explorer: explorer,
}


def render_block(block: Block, lang: str) -> RenderableType:
    """Return one block for the terminal, in a language."""
    return _RENDERERS[type(block)](block, lang)
