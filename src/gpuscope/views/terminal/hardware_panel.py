"""What the hardware does meanwhile: the roofline, and how the work is split into tasks."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from gpuscope.analysis.types import BesideRoofline, Roofline, Task
from gpuscope.document import format as units
from gpuscope.run import Run
from gpuscope.views.i18n import tr
from gpuscope.views.roofline_summary import FamilyOnRoofline, by_family, main_peak
from gpuscope.views.terminal.layout import Bar, bars, left, right, section, table
from gpuscope.views.words import word

TOP_TASKS = 10
LEAST_SHARE = 0.001
"""Families below this share of the step are left out."""


def roofline(run: Run, points: Roofline, lang: str) -> RenderableType:
    """How close each kernel family comes to the roof over it, or to the memory's bandwidth."""
    rows = table(
        left(tr("family", lang)),
        right(tr("of step", lang)),
        right(tr("FLOP per byte", lang)),
        right(tr("reached", lang)),
        right(tr("roof", lang)),
        bars(tr("share of the roof", lang)),
        right(),
        left(tr("limited by", lang)),
    )
    for family in by_family(points):
        if family.time_s < LEAST_SHARE * run.analysis.step_s:
            continue
        rows.add_row(
            word(family.kind, lang),
            units.share(family.time_s / run.analysis.step_s, lang),
            units.digits(family.intensity_flops_per_byte),
            units.flop_rate(family.flops_per_s, lang),
            units.flop_rate(family.roof_flops_per_s, lang),
            Bar(family.share_of_roof, 16, _side_style(family), "░"),
            units.share(family.share_of_roof, lang),
            word("compute" if family.compute_side else "memory", lang),
        )
    beside = [b for b in points.beside if b.time_s >= LEAST_SHARE * run.analysis.step_s]
    for rest in beside:
        rows.add_row(*_beside(rest, run, points, lang))
    about = "\n".join(filter(None, (_ridge(run, points, lang), _uncounted(run, points, lang))))
    return section(tr("Roofline", lang), about, rows)


def _beside(rest: BesideRoofline, run: Run, points: Roofline, lang: str) -> list[RenderableType]:
    """A family without counted FLOPs: its bytes a second under the memory's."""
    family = word(rest.kind, lang)
    if any(point.kind == rest.kind for point in points.points):
        family = tr("{family}, the rest", lang, family=family)
    cells: list[RenderableType] = [
        family,
        units.share(rest.time_s / run.analysis.step_s, lang),
        "-",
    ]
    if rest.bytes_per_s is None or rest.memory_share is None:
        return cells
    return [
        *cells,
        units.byte_rate(rest.bytes_per_s, lang),
        units.byte_rate(points.memory_bandwidth_bytes_per_s, lang),
        Bar(rest.memory_share, 16, "magenta", "░"),
        units.share(rest.memory_share, lang),
        word("memory", lang),
    ]


def _uncounted(run: Run, points: Roofline, lang: str) -> str:
    """How much of the step has no place under the roofs."""
    rest_s = sum(rest.time_s for rest in points.beside)
    if rest_s < LEAST_SHARE * run.analysis.step_s:
        return ""
    return tr(
        "Kernels whose arithmetic is not counted take {share} of the step: they stand below with "
        "the bytes a second that they reach.",
        lang,
        share=units.share(rest_s / run.analysis.step_s, lang),
    )


def _ridge(run: Run, points: Roofline, lang: str) -> str:
    """The device's two limits and where they meet."""
    bandwidth, peak = points.memory_bandwidth_bytes_per_s, main_peak(run)
    if not bandwidth or not peak:
        return ""
    return tr(
        "The device computes at most {peak} and moves at most {bandwidth}. Kernels with less than "
        "{ridge} FLOP per byte are limited by memory, the others by arithmetic.",
        lang,
        peak=units.flop_rate(peak, lang),
        bandwidth=units.byte_rate(bandwidth, lang),
        ridge=units.digits(peak / bandwidth),
    )


def _side_style(family: FamilyOnRoofline) -> str:
    return "blue" if family.compute_side else "magenta"


def tasks(run: Run, lang: str) -> RenderableType:
    """How the longest kernels are split over the machine."""
    about = tr(
        "A kernel is a grid of thread blocks. The device runs as many at once as it has room for: "
        "one wave. A last wave that is not full leaves units empty.",
        lang,
    )
    rows = table(
        left(tr("kernel", lang), ratio=1),
        right(tr("time", lang)),
        right(tr("count", lang)),
        right(tr("blocks", lang)),
        right(tr("tile", lang)),
        right(tr("waves", lang)),
        right(tr("last wave", lang)),
        right(tr("warps", lang)),
    )
    rows.expand = True
    for task in run.analysis.tasks[:TOP_TASKS]:
        rows.add_row(
            task.label,
            units.time(task.time_s, lang),
            units.count(task.count, lang),
            units.count(task.grid, lang),
            "×".join(map(str, task.tile)),
            units.digits(task.waves) if task.waves > 0 else "",
            _last_wave(task, lang),
            "" if task.occupancy is None else f"{task.occupancy:.0%}",
        )
    return section(tr("How the work is split", lang), about, rows)


def _last_wave(task: Task, lang: str) -> Text:
    """How full the last wave is; red where much of the machine's time is lost by it."""
    if task.waves <= 0:
        return Text("")
    whole = int(task.waves)
    part = task.waves - whole
    fill = 1.0 if part < 1e-9 else part
    style = "red" if task.tail_loss > 0.25 else "yellow" if task.tail_loss > 0.1 else ""
    return Text(tr("{share} full", lang, share=f"{fill:.0%}"), style=style)
