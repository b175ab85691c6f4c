"""Where the time goes: by class, by kernel family, by phase, by operator."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gpuscope.analysis.types import Share
from gpuscope.document import format as units
from gpuscope.document.text import render
from gpuscope.run import Run
from gpuscope.views.figures import short_operator
from gpuscope.views.i18n import tr
from gpuscope.views.palette import COLOURS
from gpuscope.views.quantities import cell
from gpuscope.views.run_figures.account import account as account_figure
from gpuscope.views.terminal.layout import Bar, bars, class_style, left, right, section, table
from gpuscope.views.words import class_label, word

TOP_OPERATORS = 12
LONGEST_LABEL = 60
LEAST_SHARE = 0.001
"""Operators below this share of the step are summed up in one row."""


def classes(run: Run, lang: str) -> RenderableType:
    """The step by what sets its time; the rows add up to the step."""
    about = tr(
        "Compute-bound: arithmetic sets the time. Bandwidth-bound: device memory does. "
        "Instruction-bound: neither, the units are busy issuing instructions. Launch-bound: "
        "too short to matter but for starting. Idle: the device waits.",
        lang,
    )
    rows = table(left(), bars(), right(), right(), header=False)
    top = max((share.time_s for share in run.analysis.classes), default=0.0)
    for share in run.analysis.classes:
        rows.add_row(
            class_label(share.label, lang),
            Bar(share.time_s / top if top else 0.0, 36, class_style(share.label)),
            units.time(share.time_s, lang),
            units.share(_part(share.time_s, run), lang),
        )
    return section(tr("Where the time goes", lang), about, rows)


def account(run: Run, lang: str) -> RenderableType | None:
    """The step from its best possible time, as a waterfall; None where a run has no account."""
    figure = account_figure(run)
    if figure is None:
        return None
    step_s = run.analysis.step_s
    rows = table(left(), bars(), right(), right(), header=False)
    for each in figure.bars:
        time_s = sum(part.value for part in each.parts)
        style = COLOURS[each.parts[0].role] if each.parts else ""
        rows.add_row(
            cell(each.label, "", lang),
            Bar(time_s / step_s, 36, style, start=each.start / step_s),
            units.time(time_s, lang) if each.parts else tr("not available", lang),
            render(each.note, lang),
        )
    return section(render(figure.title, lang), render(figure.note, lang), rows)


def families(run: Run, lang: str) -> RenderableType:
    """Device time by kernel family, with the rates that it reaches."""
    rows = table(
        left(tr("family", lang)),
        bars(),
        right(tr("time", lang)),
        right(tr("of step", lang)),
        right(tr("launches", lang)),
        right(tr("arithmetic", lang)),
        right(tr("traffic", lang)),
    )
    top = max((share.time_s for share in run.analysis.kinds), default=0.0)
    for share in run.analysis.kinds:
        rows.add_row(
            word(share.label, lang),
            Bar(share.time_s / top if top else 0.0, 16),
            units.time(share.time_s, lang),
            units.share(_part(share.time_s, run), lang),
            units.count(share.count, lang),
            "" if share.flops_per_s is None else units.flop_rate(share.flops_per_s, lang),
            "" if share.bytes_per_s is None else units.byte_rate(share.bytes_per_s, lang),
        )
    return section(tr("By kernel family", lang), "", rows)


def phases(run: Run, lang: str) -> RenderableType:
    """Device time by phase, in one line each."""
    rows = table(left(), bars(), right(), right(), header=False)
    shares = run.analysis.phases
    total = sum(share.time_s for share in shares)
    for share in shares:
        rows.add_row(
            word(share.label, lang),
            Bar(share.time_s / total if total else 0.0, 36),
            units.time(share.time_s, lang),
            units.share(_part(share.time_s, run), lang),
        )
    return section(tr("By phase", lang), "", rows)


def operators(run: Run, lang: str) -> RenderableType:
    """The operators that take most device time."""
    about = tr(
        "× best: how many times longer than the device could do it at its peak arithmetic and "
        "memory rates.",
        lang,
    )
    large = [s for s in run.analysis.operators if _part(s.time_s, run) >= LEAST_SHARE]
    large = large or list(run.analysis.operators)  # a device that hardly works, but at what?
    shown = large[:TOP_OPERATORS]
    rest = run.analysis.operators[len(shown) :]
    return section(tr("Top operators", lang), about, _operator_table(shown, rest, run, lang))


def _operator_table(shown: Sequence[Share], rest: Sequence[Share], run: Run, lang: str) -> Table:
    # Kernels without an operator stand under their symbols, which may be hundreds of letters.
    cut = any(len(share.label) > LONGEST_LABEL for share in shown)
    rows = table(
        left(tr("operator", lang), ratio=1 if cut else None),
        right(tr("time", lang)),
        right(tr("of step", lang)),
        right(tr("launches", lang)),
        left(tr("limited by", lang)),
        right(tr("× best", lang)),
    )
    rows.expand = cut
    for share in shown:
        rows.add_row(
            short_operator(share.label),
            units.time(share.time_s, lang),
            units.share(_part(share.time_s, run), lang),
            units.count(share.count, lang),
            word(share.limiter, lang) if share.limiter else "",
            _times_best(share, lang),
        )
    if rest:
        time_s = sum(share.time_s for share in rest)
        rows.add_row(
            Text(tr("{n} others", lang, n=len(rest)), style="dim"),
            units.time(time_s, lang),
            units.share(_part(time_s, run), lang),
            units.count(sum(share.count for share in rest), lang),
        )
    return rows


def _times_best(share: Share, lang: str) -> str:
    if not share.best_s or share.time_s <= 0:
        return ""
    times = share.time_s / share.best_s
    return "> 100×" if times > 100 else units.ratio(times, lang)


def _part(time_s: float, run: Run) -> float:
    return time_s / run.analysis.step_s if run.analysis.step_s > 0 else 0.0
