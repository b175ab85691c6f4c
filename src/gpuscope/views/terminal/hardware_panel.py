"""What the hardware does meanwhile: the roofline, and how the work is split into tasks."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from gpuscope.analysis.types import Roofline, Task
from gpuscope.run import Run
from gpuscope.views import units
from gpuscope.views.i18n import tr
from gpuscope.views.roofline_summary import FamilyOnRoofline, by_family, main_peak
from gpuscope.views.terminal.layout import Bar, bars, left, right, section, table, word

TOP_TASKS = 10
LEAST_SHARE = 0.001
"""Families below this share of the step are left out."""


def roofline(run: Run, points: Roofline, lang: str) -> RenderableType:
    """How close each kernel family comes to the roof over it."""
    rows = table(
        left(tr("family", lang)), right(tr("FLOP per byte", lang)), right(tr("reached", lang)),
        right(tr("roof", lang)), bars(tr("share of the roof", lang)), right(),
        left(tr("side", lang)),
    )  # fmt: skip
    for family in by_family(points):
        if family.time_s < LEAST_SHARE * run.analysis.step_s:
            continue
        rows.add_row(
            word(family.kind, lang),
            units.digits(family.intensity_flops_per_byte),
            units.flop_rate(family.flops_per_s, lang),
            units.flop_rate(family.roof_flops_per_s, lang),
            Bar(family.share_of_roof, 16, _side_style(family), "░"),
            units.percent(family.share_of_roof, lang),
            tr("compute" if family.compute_side else "memory", lang),
        )
    return section(tr("Roofline", lang), _ridge(run, points, lang), rows)


def _ridge(run: Run, points: Roofline, lang: str) -> str:
    """The device's two limits and where they meet."""
    bandwidth, peak = points.memory_bandwidth_bytes_per_s, main_peak(run)
    if not bandwidth or not peak:
        return ""
    return tr(
        "The device computes at most {peak} and moves at most {bandwidth}. Kernels with less than "
        "{ridge} FLOP per byte are limited by memory, the others by arithmetic.",
        lang, peak=units.flop_rate(peak, lang), bandwidth=units.byte_rate(bandwidth, lang),
        ridge=units.digits(peak / bandwidth),
    )  # fmt: skip


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
        left(tr("kernel", lang), ratio=1), right(tr("time", lang)), right(tr("count", lang)),
        right(tr("blocks", lang)), right(tr("tile", lang)), right(tr("waves", lang)),
        right(tr("last wave", lang)), right(tr("warps", lang)),
    )  # fmt: skip
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
