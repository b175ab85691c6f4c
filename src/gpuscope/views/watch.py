"""What the devices do, on one screen: the same for a single look and for the live view."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from gpuscope.document import format as units
from gpuscope.document.text import render
from gpuscope.views.i18n import tr
from gpuscope.views.watch_curve import curve, curve_text
from gpuscope.views.watch_device import STYLES, Look, device_panel, verdict_line
from gpuscope.views.watch_processes import process_table
from gpuscope.views.watch_rows import Cell, Draw, Row, Rows, share_bar
from gpuscope.watch.history import History
from gpuscope.watch.types import DeviceSample
from gpuscope.watch.window import busy_of, power_share_of

Chosen = tuple[str, int]
"""A device: its host and its place in the host's newest sample."""

MOST_PANELS = 2
"""Devices that a single look shows in full; of more it shows a line each."""


def render_watch(history: History, look: Look, notes: Sequence[str] = ()) -> RenderableType:
    """Return everything that a single look shows.

    Args:
        history: what was read.
        look: how it is shown.
        notes: what cannot be read, and why.
    """
    parts: list[RenderableType] = []
    devices = all_devices(history)
    for host in history.hosts:
        parts.append(host_line(history, host, look))
        if host not in history.silent and not history.latest(host).devices:
            parts.append(no_device(look.lang))
    if len(devices) > MOST_PANELS:
        parts += [Text(), overview(history, look), Text(), *_verdicts(history, look.lang)]
    else:
        parts += [device_panel(history, host, place, look) for host, place in devices]
    parts += process_table(history, look.lang)
    parts += [Text(render(note, look.lang), style="dim") for note in notes]
    return Group(*parts)


def all_devices(history: History) -> list[Chosen]:
    """Every device of every host that answers, in order."""
    silent = history.silent
    return [
        (host, place)
        for host in history.hosts
        if host not in silent
        for place in range(len(history.latest(host).devices))
    ]


def host_line(history: History, host: str, look: Look) -> Text:
    """Return a host's name, time, and what its processors do."""
    if host in history.silent:
        return Text.assemble((host, "bold"), "  ", (tr("does not answer", look.lang), "yellow"))
    sample = history.latest(host)
    clock = datetime.datetime.fromtimestamp(sample.unix_s).strftime("%H:%M:%S")
    text = Text.assemble((host, "bold"), "  ", (clock, "dim"), "  ")
    if sample.host_cpu is None:
        return text
    text.append(tr("processors", look.lang) + " ", style="dim")
    text.append(units.share(sample.host_cpu, look.lang))
    if look.curves:
        values = history.host_curve(host, 30, look.span_s)
        text.append("  ").append(curve_text(values), style="green")
    return text


def no_device(lang: str) -> Text:
    """Return what to say of a host without an accelerator."""
    return Text.assemble(
        tr("No accelerator is seen on this host.", lang),
        " ",
        (tr("Should there be one? Type: gpuscope doctor", lang), "dim"),
    )


def overview(history: History, look: Look, chosen: Chosen | None = None) -> RenderableType:
    """Return one line a device: verdict, utilisation, power, memory, temperature, curve."""
    lang, hosts = look.lang, len(history.hosts) > 1
    titles = (
        "GPU",
        tr("what it does", lang),
        tr("utilisation", lang),
        "",
        tr("power", lang),
        tr("memory", lang),
        "°C",
    )
    heads = ("", *((tr("host", lang),) if hosts else ()), *titles)
    rows = [
        Row(
            tuple(((head, "dim"),) for head in heads),
            (lambda width: ((look.span, "dim"),)) if look.curves else None,
        )
    ]
    for host, place in all_devices(history):
        marked = chosen == (host, place)
        cells = (
            (("▸" if marked else " ", "cyan"),),
            *((((host, ""),),) if hosts else ()),
            *_line(history, host, place, lang),
        )
        tail = _busy_curve(history, host, place, look.span_s) if look.curves else None
        rows.append(Row(cells, tail, "bold" if marked else ""))
    first = 2 if hosts else 1
    right = frozenset(first + n for n in (0, 3, 4, 5, 6))
    return Rows(rows, right=right, prefer=12, least=4, gap=1)


def _line(history: History, host: str, place: int, lang: str) -> list[Cell | Draw]:
    device = history.latest(host).devices[place]
    verdict = history.verdicts(host)[place]
    busy, hot = busy_of(device), device.reading.temperature_c
    return [
        ((str(device.info.index), ""),),
        ((render(verdict.head, lang), STYLES[verdict.kind]),),
        share_bar(busy or 0.0, "default"),
        (("–" if busy is None else f"{busy * 100:.0f} %", ""),),
        ((_power(device), ""),),
        ((_memory(device), ""),),
        (("–" if hot is None else f"{hot:.0f}", ""),),
    ]


def _power(device: DeviceSample) -> str:
    power_w, share = device.reading.power_w, power_share_of(device)
    if power_w is None:
        return "–"
    return f"{power_w:.0f} W" if share is None else f"{power_w:.0f} W {share * 100:.0f} %"


def _memory(device: DeviceSample) -> str:
    used, total = device.reading.memory_used_bytes, device.reading.memory_total_bytes
    if used is None:
        return "–"
    return f"{used / 2**30:.0f}/{total / 2**30:.0f} GiB" if total else f"{used / 2**30:.0f} GiB"


def _busy_curve(history: History, host: str, place: int, span_s: float) -> Draw:
    index = history.latest(host).devices[place].info.index
    return curve(lambda n: history.curve(host, index, busy_of, n, span_s), "default")


def _verdicts(history: History, lang: str) -> list[RenderableType]:
    """The sentences, one a device."""
    lines: list[RenderableType] = []
    for host, place in all_devices(history):
        index = history.latest(host).devices[place].info.index
        at = f"{host} " if len(history.hosts) > 1 else ""
        said = verdict_line(history.verdicts(host)[place], lang)
        lines.append(Text.assemble((f"{at}GPU {index} ", "bold"), said))
    return lines
