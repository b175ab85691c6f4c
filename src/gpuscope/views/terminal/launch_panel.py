"""How work reached the device: launches and their queue; and what was copied, how fast."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gpuscope.analysis.copies import CopyKind
from gpuscope.analysis.launches import LaunchDelays, Launches
from gpuscope.analysis.symbols import short_symbol
from gpuscope.document import format as units
from gpuscope.run import Run
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import area, left, right, section, table
from gpuscope.views.words import word

_QUEUE_WIDTH, _QUEUE_HEIGHT = 72, 3


def launches(found: Launches, lang: str) -> RenderableType:
    """Launch calls, how long they and the device's answer take, and how full the queue was."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    grid.add_row(tr("Launches a step", lang), _counts(found, lang))
    grid.add_row(tr("A launch call", lang), _calls(found, lang))
    if found.latency_median_s is not None:
        grid.add_row(tr("From call to work", lang), _latency(found, lang))
    if found.queue_mean is not None:
        grid.add_row(tr("Queue", lang), _queue(found, lang))
    if found.short_share is not None:
        short = tr(
            "{share} of the kernels are shorter than their own launch call",
            lang,
            share=units.share(found.short_share, lang),
        )
        grid.add_row(tr("Short kernels", lang), short)
    body: list[RenderableType] = [grid]
    if len(found.queue_depth) > 1 and max(found.queue_depth) > 0:
        body += [Text(), _curve(found, lang)]
    about = tr(
        "A host that stays ahead keeps a queue of launched work; an empty queue means that the "
        "device waits for the host.",
        lang,
    )
    return section(tr("Launches and their queue", lang), about, *body)


def _counts(found: Launches, lang: str) -> str:
    parts = [units.count(found.count, lang)]
    parts.append(
        tr("{rate} a second while it launches", lang, rate=units.count(found.rate_per_s, lang))
    )
    if found.graph_launches:
        each = units.count(found.kernels_per_graph, lang)
        parts.append(
            tr(
                "{n} of CUDA graphs with {each} kernels each",
                lang,
                n=units.count(found.graph_launches, lang),
                each=each,
            )
        )
    if found.unlinked:
        n = units.count(found.unlinked, lang)
        parts.append(tr("{n} device events without a known launch", lang, n=n))
    return "   ".join(parts)


def _calls(found: Launches, lang: str) -> str:
    total = tr("{time} a step in all", lang, time=units.time(found.call_total_s, lang))
    if found.call_full_s:
        full = units.time(found.call_full_s, lang)
        total += tr(", {time} of that waiting for room in the full queue", lang, time=full)
    return f"{units.time(found.call_median_s, lang)}   {total}"


def _latency(found: Launches, lang: str) -> str:
    text = units.time(found.latency_median_s, lang)
    if found.latency_empty_median_s is not None:
        alone = units.time(found.latency_empty_median_s, lang)
        text += "   " + tr("{time} where nothing was queued", lang, time=alone)
    return text


def _queue(found: Launches, lang: str) -> str:
    text = tr(
        "{mean} on average, {most} at most",
        lang,
        mean=units.digits(found.queue_mean or 0.0),
        most=units.count(found.queue_max, lang),
    )
    if found.empty_share is not None:
        share = units.share(found.empty_share, lang)
        text += "   " + tr("{share} of the launches found it empty", lang, share=share)
    return text


def _curve(found: Launches, lang: str) -> Text:
    depth = found.queue_depth
    width = min(_QUEUE_WIDTH, len(depth))
    slices = [
        max(
            depth[
                i * len(depth) // width : max(
                    i * len(depth) // width + 1, (i + 1) * len(depth) // width
                )
            ]
        )
        for i in range(width)
    ]
    text = Text(area(slices, _QUEUE_HEIGHT), style="cyan")
    text.append("\n" + tr("launched and not yet begun, over the window", lang), style="dim")
    return text


def delays(found: LaunchDelays, lang: str) -> RenderableType:
    """Launches that were late though the device was free."""
    rows = table(
        left(tr("kernel", lang)),
        left(tr("call", lang)),
        right(tr("at", lang)),
        right(tr("from call to work", lang)),
        right(tr("in the call", lang)),
    )
    for row in found.rows:
        rows.add_row(
            short_symbol(row.kernel),
            row.call,
            units.time(row.at_s, lang),
            units.time(row.delay_s, lang),
            units.time(row.call_s, lang),
        )
    about = tr(
        "{count} of {of} launches that found the device free took far longer than their median "
        "of {typical}: {lost} a step beyond it.",
        lang,
        count=units.count(found.count, lang),
        of=units.count(found.of, lang),
        typical=units.time(found.typical_s, lang),
        lost=units.time(found.lost_s, lang),
    )
    return section(tr("Late launches", lang), about, rows)


def copies(run: Run, lang: str) -> RenderableType:
    """Copies by direction and kind of host memory, with the rate that they reach."""
    rows = table(
        left(tr("copies", lang)),
        right(tr("time", lang)),
        right(tr("not hidden", lang)),
        right(tr("count", lang)),
        right(tr("bytes", lang)),
        right(tr("median size", lang)),
        right(tr("rate", lang)),
        right(tr("of the link", lang)),
    )
    for copy in run.analysis.copies:
        rows.add_row(
            _copy_name(copy, lang),
            units.time(copy.time_s, lang),
            units.time(copy.exposed_s, lang),
            units.count(copy.count, lang),
            _size(copy.total_bytes, lang),
            _size(copy.median_bytes, lang),
            units.byte_rate(copy.rate_bytes_per_s, lang) if copy.rate_bytes_per_s else "",
            _of_link(copy, lang),
        )
    about = tr("Per step. Not hidden: with no kernel beside it.", lang)
    return section(tr("Memory copies", lang), about, rows)


def _copy_name(copy: CopyKind, lang: str) -> Text:
    text = Text(word(copy.direction, lang))
    if copy.memory:
        style = "yellow" if copy.memory == "pageable" else "dim"
        text.append(f" ({word(copy.memory, lang)})", style=style)
    return text


def _size(nbytes: int | None, lang: str) -> str:
    return "" if nbytes is None else units.size(nbytes, lang)


def _of_link(copy: CopyKind, lang: str) -> str:
    if not copy.rate_bytes_per_s or not copy.link_bytes_per_s:
        return ""
    return units.share(copy.rate_bytes_per_s / copy.link_bytes_per_s, lang)
