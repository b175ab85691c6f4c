"""One device on the screen: its verdict, what its units do, and how the last minutes went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from gpuscope.document import format as units
from gpuscope.document.text import Text as Said
from gpuscope.document.text import render
from gpuscope.views.i18n import tr
from gpuscope.views.watch_curve import curve
from gpuscope.views.watch_rows import Draw, Row, Rows, share_bar
from gpuscope.views.words import word
from gpuscope.watch.history import History
from gpuscope.watch.types import DeviceSample, Verdict, VerdictKind
from gpuscope.watch.window import (
    busy_of,
    links_peak_bytes_per_s,
    nvlink_of,
    pcie_peak_bytes_per_s,
    power_share_of,
)

SPANS_S = (60.0, 120.0, 300.0, 600.0)
"""What the curves may span."""

CURVES_FROM = 72
"""Columns of a screen from which there is room for curves."""

STYLES: dict[VerdictKind, str] = {
    "idle": "grey58",
    "waiting_for_input": "yellow",
    "host_bound": "yellow",
    "compute_bound": "green",
    "memory_bound": "green",
    "communication_bound": "cyan",
    "power_limited": "magenta",
    "thermally_limited": "red",
    "busy": "blue",
    "unknown": "grey58",
}
"""Colour of each verdict: green works at a limit of the device, yellow waits for the host."""

LINKS_TOP_BYTES_PER_S = 900e9
"""Full height of the links' curve where their own rate is not known: both directions of NVLink 4
(NVIDIA H100 datasheet)."""


@dataclass(frozen=True, slots=True)
class Look:
    """How things are shown.

    Attributes:
        lang: "en" or "zh".
        width: columns that there are.
        span_s: what the curves span.
    """

    lang: str
    width: int
    span_s: float = SPANS_S[1]

    @property
    def curves(self) -> bool:
        """There is room for curves."""
        return self.width >= CURVES_FROM

    @property
    def span(self) -> str:
        """The span in words."""
        if self.span_s <= 60:
            return tr("last minute", self.lang)
        return tr("last {minutes} minutes", self.lang, minutes=f"{self.span_s / 60:.0f}")


@dataclass(frozen=True, slots=True)
class _Row:
    """A figure with a bar: what it is called, how it is read and how it is said.

    `alone` says it where the whole that it is a part of was not read: None where nothing was.
    """

    label: Said
    share: Callable[[DeviceSample], float | None]
    said: Callable[[DeviceSample, str], str]
    style: str
    alone: Callable[[DeviceSample, str], str | None] | None = None


def device_panel(
    history: History, host: str, place: int, look: Look, *, chosen: bool = False
) -> Panel:
    """Return the panel of one device.

    Args:
        history: what was read.
        host: which host.
        place: of the device in the host's newest sample.
        look: how it is shown.
        chosen: draw it as the chosen one.
    """
    device = history.latest(host).devices[place]
    verdict = history.verdicts(host)[place]
    info = device.info
    title = Text.assemble((f" GPU {info.index} ", "bold default"), (f"{info.name} ", "default"))
    return Panel(
        Group(
            verdict_line(verdict, look.lang),
            Text(),
            _bars(history, host, device, look),
            Text(),
            _facts(device, look.lang),
            *_missing(device, look.lang),
        ),
        title=title,
        title_align="left",
        box=box.ROUNDED,
        padding=(0, 1),
        border_style="cyan" if chosen else "bright_black",
        width=look.width,
    )


def verdict_line(verdict: Verdict, lang: str) -> Text:
    """Return a verdict's sentence, its head in colour, and how sure it is."""
    head, rest = render(verdict.head, lang), render(verdict.evidence, lang)
    if rest:
        head += tr(": ", lang)
    sure = tr("({share} sure)", lang, share=f"{verdict.sure * 100:.0f} %")
    style = STYLES[verdict.kind]
    return Text.assemble(
        ("● ", style),
        (head, f"bold {style}"),
        rest,
        (f" {sure}" if verdict.sure > 0 else "", "dim"),
    )


def throttle_text(reasons: Sequence[str], lang: str) -> str:
    """Return why the clock is held down."""
    return tr(", ", lang).join(word(reason, lang) for reason in reasons)


def _bars(history: History, host: str, device: DeviceSample, look: Look) -> RenderableType:
    lang = look.lang
    rows = [
        Row(
            (
                ((render(row.label, lang), "dim"),),
                share_bar(share, row.style),
                ((row.said(device, lang), ""),),
            ),
            _curve(history, host, device, row, look.span_s) if look.curves else None,
        )
        for row in _ROWS
        if (share := row.share(device)) is not None
    ]
    if look.curves and rows:
        rows.append(Row(((), (), ()), lambda width: ((f"└ {look.span}", "dim"),)))
    return Rows(rows, right=frozenset({2}))


def _curve(history: History, host: str, device: DeviceSample, row: _Row, span_s: float) -> Draw:
    index = device.info.index
    return curve(lambda n: history.curve(host, index, row.share, n, span_s), row.style)


def _facts(device: DeviceSample, lang: str) -> RenderableType:
    """Clocks, temperature and why the clock is held down, side by side as there is room."""
    reading = device.reading
    degrees = None if reading.temperature_c is None else f"{reading.temperature_c:.0f} °C"
    pairs = (
        (tr("SM clock", lang), _said(units.frequency, reading.sm_clock_hz, lang)),
        (tr("memory clock", lang), _said(units.frequency, reading.memory_clock_hz, lang)),
        (tr("temperature", lang), degrees),
        (tr("PCIe link", lang), _link(device, lang)),
        *((render(row.label, lang), _alone(row, device, lang)) for row in _ROWS),
    )
    shown = [
        Text.assemble((f"{label} ", "dim"), value) for label, value in pairs if value is not None
    ]
    if reading.throttle_reasons:
        why = throttle_text(reading.throttle_reasons, lang)
        shown.append(Text.assemble((tr("throttled by", lang) + " ", "dim"), (why, "yellow")))
    elif reading.throttle_reasons is not None:
        shown.append(Text(tr("not throttled", lang), style="dim"))
    return Columns(shown, padding=(0, 3))


def _said(how: Callable[[float | None, str], str], value: float | None, lang: str) -> str | None:
    return None if value is None else how(value, lang)


def _alone(row: _Row, device: DeviceSample, lang: str) -> str | None:
    """A figure that has no bar, as the whole that it is a part of was not read."""
    return row.alone(device, lang) if row.alone and row.share(device) is None else None


def _link(device: DeviceSample, lang: str) -> str | None:
    generation, width = device.reading.pcie_generation, device.reading.pcie_width
    if not generation or not width:
        return None
    return tr("generation {generation} × {width}", lang, generation=generation, width=width)


def _missing(device: DeviceSample, lang: str) -> list[Text]:
    """One quiet line that names what was not read, and why where that is known."""
    absent = [
        render(row.label, lang)
        for row in _ROWS
        if row.share(device) is None and _alone(row, device, lang) is None
    ]
    if not absent:
        return []
    said = tr("Not available: {figures}.", lang, figures=tr(", ", lang).join(absent))
    return [Text(said, style="dim")]


def _pcie_share(device: DeviceSample, direction: str) -> float | None:
    rate = getattr(device.activity, f"pcie_{direction}_bytes_per_s")
    peak = pcie_peak_bytes_per_s(device)
    return rate / peak if rate is not None and peak else None


def _memory_share(device: DeviceSample) -> float | None:
    used, total = device.reading.memory_used_bytes, device.reading.memory_total_bytes
    return used / total if used is not None and total else None


def _nvlink_share(device: DeviceSample) -> float | None:
    traffic = nvlink_of(device)
    peak = links_peak_bytes_per_s(device.info.name) or LINKS_TOP_BYTES_PER_S
    return None if traffic is None else min(traffic / peak, 1.0)


def _of(
    how: Callable[[float | None, str], str], part: float | None, whole: float | None, lang: str
) -> str:
    return f"{how(part, lang)} / {how(whole, lang)}"


def _share_row(label: Said, figure: Callable[[DeviceSample], float | None], style: str) -> _Row:
    return _Row(label, figure, lambda d, lang: units.share(figure(d), lang), style)


_ROWS: tuple[_Row, ...] = (
    _share_row(Said("utilisation"), busy_of, "default"),
    _share_row(Said("SMs"), lambda d: d.activity.sm, "blue"),
    _share_row(Said("tensor cores"), lambda d: d.activity.tensor, "bright_blue"),
    _share_row(Said("memory bandwidth"), lambda d: d.activity.memory_bandwidth, "magenta"),
    _Row(
        Said("power"),
        power_share_of,
        lambda d, lang: _of(units.power, d.reading.power_w, d.reading.power_limit_w, lang),
        "yellow",
        lambda d, lang: _said(units.power, d.reading.power_w, lang),
    ),
    _Row(
        Said("memory"),
        _memory_share,
        lambda d, lang: _of(
            units.size, d.reading.memory_used_bytes, d.reading.memory_total_bytes, lang
        ),
        "green",
        lambda d, lang: _said(units.size, d.reading.memory_used_bytes, lang),
    ),
    _Row(
        Said("PCIe in"),
        lambda d: _pcie_share(d, "rx"),
        lambda d, lang: units.byte_rate(d.activity.pcie_rx_bytes_per_s, lang),
        "cyan",
    ),
    _Row(
        Said("PCIe out"),
        lambda d: _pcie_share(d, "tx"),
        lambda d, lang: units.byte_rate(d.activity.pcie_tx_bytes_per_s, lang),
        "cyan",
    ),
    _Row(
        Said("device links"),
        _nvlink_share,
        lambda d, lang: units.byte_rate(nvlink_of(d), lang),
        "bright_cyan",
    ),
)
