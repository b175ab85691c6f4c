"""An explanation on the terminal: title, summary, then its sections with their figures."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from gpuscope.document.blocks import Explanation, Section
from gpuscope.document.text import render
from gpuscope.views.i18n import tr
from gpuscope.views.quantities import words
from gpuscope.views.terminal.blocks.render import render_block

_INDENT = (0, 0, 0, 2)


def render_explanation(
    explanation: Explanation, lang: str, brief: bool = False
) -> list[RenderableType]:
    """Return what to print, in order.

    Args:
        explanation: any explanation.
        lang: "en" or "zh".
        brief: only title and summary.
    """
    parts: list[RenderableType] = [_headline(explanation, lang)]
    if brief:
        return parts
    parts += [_section(section, lang) for section in explanation.sections]
    if explanation.assumptions:
        shown = [render(text, lang) for text in explanation.assumptions]
        parts.append(_listed(tr("Assumptions", lang), shown, "·"))
    if explanation.sources:
        parts.append(
            _listed(tr("Sources", lang), [render(s, lang) for s in explanation.sources], "·")
        )
    if explanation.commands:
        parts.append(_listed(tr("Next", lang), list(explanation.commands), "$", "cyan"))
    return parts


def _headline(explanation: Explanation, lang: str) -> RenderableType:
    title = Text(words(explanation.title, lang), style="bold")
    sentences: list[RenderableType] = []
    for number, sentence in enumerate(explanation.summary):
        sentences.append(Text(words(sentence, lang), style="bold green" if number == 0 else ""))
    body = Group(title, *([Text()] if sentences else []), *sentences)
    return Panel(body, box=box.ROUNDED, border_style="bright_black", padding=(0, 1))


def _section(section: Section, lang: str) -> RenderableType:
    parts: list[RenderableType] = [Text(), Text(words(section.title, lang), style="bold")]
    for number, block in enumerate(section.blocks):
        if number:
            parts.append(Text())
        parts.append(Padding(render_block(block, lang), _INDENT))
    return Group(*parts)


def _listed(title: str, lines: list[str], sign: str, style: str = "") -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    for line in lines:
        grid.add_row(Text(sign, style="dim"), Text(line, style=style))
    return Group(Text(), Text(title, style="bold"), Padding(grid, _INDENT))
