"""What the figures of the live view mean, for someone who sees them for the first time."""

from __future__ import annotations

from rich import box
from rich.console import Group
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from gpuscope.document.text import render
from gpuscope.views.i18n import tr
from gpuscope.views.watch_device import STYLES, Look
from gpuscope.watch.types import VerdictKind
from gpuscope.watch.verdict import HEADS


def help_panel(look: Look) -> Panel:
    """Return the figures and the verdicts, each with what it means."""
    lang = look.lang
    figures = _table()
    for label, about in _figures(lang):
        figures.add_row(Text(label, style="bold"), Text(about))
    verdicts = _table()
    for kind, about in _verdicts(lang).items():
        verdicts.add_row(Text(render(HEADS[kind], lang), style=f"bold {STYLES[kind]}"), Text(about))
    body = Group(
        Text(tr("The figures", lang), style="bold underline"),
        figures,
        Text(),
        Text(tr("The verdicts: what the last 10 seconds mean", lang), style="bold underline"),
        verdicts,
    )
    return Panel(body, box=box.ROUNDED, border_style="bright_black", width=look.width)


def _table() -> Table:
    return Table(
        Column(no_wrap=True),
        Column(ratio=1),
        box=None,
        show_header=False,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )


def _figures(lang: str) -> list[tuple[str, str]]:
    return [
        (
            tr("utilisation", lang),
            tr(
                "Share of time in which any kernel ran; one that uses a single SM counts as much "
                "as "
                "one that fills the device.",
                lang,
            ),
        ),
        (
            tr("SMs", lang),
            tr(
                "Share of the SMs that had work, on average. High utilisation with few SMs: "
                "kernels "
                "too small.",
                lang,
            ),
        ),
        (
            tr("tensor cores", lang),
            tr(
                "Share of time in which they multiplied; large matrix products reach 60 to 80 %.",
                lang,
            ),
        ),
        (
            tr("memory bandwidth", lang),
            tr(
                "Traffic of the device's memory over its peak; streaming kernels reach 80 to 90 %.",
                lang,
            ),
        ),
        (
            tr("power", lang),
            tr("The most honest of all: units that work draw power, units that wait do not.", lang),
        ),
        ("PCIe", tr("Traffic with the host: input that is copied in, results out.", lang)),
        (
            tr("device links", lang),
            tr("Traffic with other devices (NVLink, xGMI), both ways together.", lang),
        ),
    ]


def _verdicts(lang: str) -> dict[VerdictKind, str]:
    return {
        "compute_bound": tr("The arithmetic units set the pace: well used.", lang),
        "memory_bound": tr("The device's memory sets the pace.", lang),
        "communication_bound": tr(
            "The links set the pace, or a collective waits for another rank.", lang
        ),
        "waiting_for_input": tr(
            "Full kernels with gaps: data loading is too slow. More workers, pinned memory, "
            "prefetching.",
            lang,
        ),
        "host_bound": tr(
            "Small kernels or gaps: Python launches too slowly. Larger batches, torch.compile, "
            "CUDA graphs.",
            lang,
        ),
        "power_limited": tr("The power limit holds the clock down.", lang),
        "thermally_limited": tr("Heat holds the clock down: see to the cooling.", lang),
        "busy": tr("Works, but does not tell which unit limits it.", lang),
        "idle": tr("No kernel ran.", lang),
    }
