"""How a job scales: the same workload on more and more devices, as a table and as curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.console import RenderableType
from rich.text import Text as Line

from gpuscope.document import format as units
from gpuscope.document.blocks import Axis, Block, Cell, Column, Lines, Paragraph, Series, Table
from gpuscope.document.text import Text, render, sentences
from gpuscope.run import Run
from gpuscope.run.figures import Figures, figures
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import Bar, bars, right, section, table

Sort = Literal["strong", "weak", "mixed"]

_EQUAL = 0.005
"""Work that differs by less than this is the same."""


def is_scaling(runs: Sequence[Run]) -> bool:
    """Whether runs are one job on different numbers of one kind of device."""
    counts = [figures(run).devices for run in runs]
    return (
        len(runs) > 1
        and len({run.device_id for run in runs}) == 1
        and len(set(counts)) == len(counts)
    )


def sort_of(runs: Sequence[Run]) -> Sort | None:
    """Strong: the same work a step on all; weak: the same a device; None where unknown."""
    work = [run.tokens if run.tokens is not None else run.samples for run in runs]
    known = [
        (amount, figures(run).devices) for amount, run in zip(work, runs, strict=True) if amount
    ]
    if len(known) < len(runs):
        return None
    if _alike([float(amount) for amount, _ in known]):
        return "strong"
    return "weak" if _alike([amount / devices for amount, devices in known]) else "mixed"


def _alike(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= _EQUAL * max(values)


def efficiency(run: Run, first: Run) -> float | None:
    """What a device does in a second, against the first run's; 1 is perfect scaling."""
    own, base = _each(figures(run)), _each(figures(first))
    return None if own is None or not base else own / base


def _each(shown: Figures) -> float | None:
    """Tokens (samples) a second and device."""
    if shown.tokens_per_s_per_device is not None:
        return shown.tokens_per_s_per_device
    return shown.samples_per_s_per_device


_ABOUT: dict[Sort | None, Text] = {
    "strong": Text(
        "Strong scaling: the work of a step stays the same, so each device does less of it."
    ),
    "weak": Text("Weak scaling: the work of a device stays the same, so a step does more."),
    "mixed": Text("Neither the work of a step nor that of a device stays the same."),
    None: Text("How much a step works on is not known: only step times are compared."),
}


def render_scaling(runs: Sequence[Run], lang: str = "en") -> RenderableType:
    """Return one row a number of devices; the bar is the efficiency against the first row."""
    tokens = any(run.tokens is not None for run in runs)
    rows = table(
        right(tr("devices", lang)),
        right(tr("step", lang)),
        right(tr("tokens/s", lang) if tokens else tr("samples/s", lang)),
        right(tr("a device", lang)),
        right(tr("efficiency", lang)),
        bars(),
        right(tr("exposed", lang)),
        right(tr("bubble", lang)),
        right(tr("peak memory", lang)),
        right(tr("$/M tokens", lang) if tokens else tr("$/step", lang)),
    )
    for run in runs:
        shown, share = figures(run), efficiency(run, runs[0])
        size = Line(units.size(run.peak_memory_bytes, lang))
        if run.fits is False:
            size.stylize("bold red")
            size.append(" !")
        rate = shown.tokens_per_s if tokens else shown.samples_per_s
        money = shown.usd_per_million_tokens if tokens else shown.usd_per_step
        rows.add_row(
            f"{shown.devices:,}",
            Line(units.time(run.step_time_s, lang), style="bold"),
            units.count(rate, lang),
            units.count(_each(shown), lang),
            units.share(share, lang),
            Bar(share or 0.0, 10, "green", "░"),
            units.share(lost_share(run, "exposed"), lang),
            units.share(lost_share(run, "bubble"), lang),
            size,
            units.money(money, lang),
        )
    about = sentences(
        _ABOUT[sort_of(runs)],
        Text("Efficiency: what a device does in a second, against the first row."),
        Text("! does not fit.") if any(run.fits is False for run in runs) else None,
    )
    parts: list[RenderableType] = [rows]
    story = runs[-1].analysis.job
    if story is not None:
        limit = render(story.limit, lang)
        said = tr("With {n} devices: {limit}", lang, n=f"{story.world_size:,}", limit=limit)
        parts += [Line(), Line(said, style="bold")]
    return section(tr("How it scales", lang), render(about, lang), *parts)


def lost_share(run: Run, kind: str) -> float | None:
    """Share of the step that all ranks lose to one kind of part, on average; None for no job."""
    story = run.analysis.job
    if story is None:
        return None
    return story.mean_s(kind) / story.step_s if story.step_s else None


def scaling_blocks(runs: Sequence[Run]) -> tuple[Block, ...]:
    """Return the curve and the table for a page; () where the runs are no scaling."""
    if not is_scaling(runs):
        return ()
    ordered = sorted(runs, key=lambda run: figures(run).devices)
    shown = [figures(run) for run in ordered]
    sort, x = sort_of(ordered), tuple(float(each.devices) for each in shown)
    blocks: list[Block] = [Paragraph(Text("How the job scales"), "key"), Paragraph(_ABOUT[sort])]
    axis = Axis(Text("devices"), "count", log=True)
    if sort is not None:
        blocks.append(_rates(ordered, shown, x, axis))
    parts = _losses(ordered, x)
    if parts:
        blocks.append(
            Lines(
                Text("What the ranks lose"),
                axis,
                Axis(Text("share of the step"), "share"),
                parts,
                note=Text("Means over all ranks."),
            )
        )
    return (*blocks, _table(ordered, shown))


def _rates(
    runs: Sequence[Run], shown: Sequence[Figures], x: tuple[float, ...], axis: Axis
) -> Lines:
    tokens = runs[0].tokens is not None
    rates = tuple(each.tokens_per_s if tokens else each.samples_per_s for each in shown)
    first = rates[0] or 0.0
    what = Text("tokens/s") if tokens else Text("samples/s")
    return Lines(
        Text("Throughput of the job"),
        axis,
        Axis(what, "count", log=True),
        (
            Series(Text("predicted"), x, rates, role="compute"),
            Series(
                Text("perfect scaling"), x, tuple(first * n / x[0] for n in x), role="reference"
            ),
        ),
    )


def _losses(runs: Sequence[Run], x: tuple[float, ...]) -> tuple[Series, ...]:
    found = []
    for kind, label, role in (
        ("exposed", Text("exposed communication"), "communication"),
        ("bubble", Text("pipeline bubble"), "waste"),
        ("imbalance", Text("waiting for other ranks"), "idle"),
        ("chance", Text("waiting by chance"), "tail"),
    ):
        shares = tuple(lost_share(run, kind) for run in runs)
        if any(shares):
            found.append(Series(label, x, shares, role=role))  # type: ignore[arg-type]
    return tuple(found)


def _table(runs: Sequence[Run], shown: Sequence[Figures]) -> Table:
    columns = (
        Column(Text("devices"), "count"),
        Column(Text("step"), "s"),
        Column(Text("tokens/s"), "count"),
        Column(Text("a device"), "count"),
        Column(Text("efficiency"), "share"),
        Column(Text("exposed"), "share"),
        Column(Text("bubble"), "share"),
        Column(Text("peak memory"), "bytes"),
        Column(Text("fits?")),
        Column(Text("$/M tokens"), "usd"),
    )
    rows: list[tuple[Cell, ...]] = []
    for run, each in zip(runs, shown, strict=True):
        rows.append(
            (
                each.devices,
                run.step_time_s,
                each.tokens_per_s,
                _each(each),
                efficiency(run, runs[0]),
                lost_share(run, "exposed"),
                lost_share(run, "bubble"),
                run.peak_memory_bytes,
                _FITS[run.fits],
                each.usd_per_million_tokens,
            )
        )
    return Table(Text("Point by point"), columns, tuple(rows))


_FITS = {True: Text("yes"), False: Text("no"), None: None}
