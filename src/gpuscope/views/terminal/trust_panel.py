"""What a recording can and cannot answer: said before anything else."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gpuscope.analysis.recorded_types import Remark, Trust
from gpuscope.document.text import render
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import section
from gpuscope.views.words import word

_STYLES = {"cannot": "bold red", "doubt": "yellow", "note": "dim"}
_MARKS = {"cannot": "✗", "doubt": "!", "note": "·"}
TOP_REMARKS = 8


def trust(found: Trust, lang: str) -> RenderableType | None:
    """The remarks, worst first, and which questions have no answer; None where all is well."""
    if not found.remarks:
        return None
    lines = Table.grid(padding=(0, 1))
    several = len({r.rank for r in found.remarks if r.rank is not None}) > 1
    for remark in found.remarks[:TOP_REMARKS]:
        style = _STYLES[remark.severity]
        mark = Text(_MARKS[remark.severity], style=style)
        sentence = Text(_of_rank(remark, several, lang), style="dim")
        sentence.append(remark_text(remark, lang), style="dim" if style == "dim" else "not dim")
        lines.add_row(mark, sentence)
    if len(found.remarks) > TOP_REMARKS:
        more = tr("and {n} more (see --json)", lang, n=len(found.remarks) - TOP_REMARKS)
        lines.add_row("", Text(more, style="dim"))
    body: list[RenderableType] = [lines]
    closed = [question for question, can in found.can_conclude.items() if not can]
    if closed:
        words = tr(", ", lang).join(word(question, lang) for question in closed)
        # What is merely not recorded is no alarm; what should be there and is not, is.
        grave = any(remark.severity == "cannot" for remark in found.remarks)
        closing = tr("Cannot be answered: {words}.", lang, words=words)
        body.append(Text(closing, style="bold" if grave else "dim"))
    return section(tr("How far this recording can be trusted", lang), "", *body)


def _of_rank(remark: Remark, several: bool, lang: str) -> str:
    """Which rank it is about, where remarks are about different ones."""
    if not several or remark.rank is None:
        return ""
    return tr("rank {rank}", lang, rank=remark.rank) + tr(": ", lang)


def remark_text(remark: Remark, lang: str) -> str:
    """The remark's sentence in a language."""
    return render(remark.sentence, lang)
