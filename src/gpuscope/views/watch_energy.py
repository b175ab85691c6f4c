"""What a command took: its energy by device, what that costs and brings about."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column
from rich.text import Text

from gpuscope.document import format as units
from gpuscope.document.text import Text as Said
from gpuscope.document.text import render, verbatim
from gpuscope.hardware.grid import JOULES_PER_KWH
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import Bar, bars, left, right, table
from gpuscope.watch.energy_of import DeviceEnergy, EnergyReport, Method

SCHEMA = "gpuscope.energy"
VERSION = 1

_INDENT = (0, 0, 0, 2)


def energy_document(report: EnergyReport) -> dict[str, Any]:
    """Return a report as plain values: schema `gpuscope.energy`, version 1; missing is null."""
    grid = report.grid
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "command": list(report.command),
        "exit_code": report.exit_code,
        "seconds": report.seconds,
        "energy_j": report.energy_j,
        "complete": report.complete,
        "average_w": report.average_w,
        "co2_g": report.co2_g,
        "grid": {
            "code": grid.code,
            "place": str(grid.place),
            "g_per_kwh": grid.g_per_kwh,
            "year": grid.year,
            "source": grid.source,
        },
        "cost_usd": report.cost_usd,
        "price_usd_per_kwh": report.price_per_kwh,
        "devices": [_part(part) for part in report.devices],
        "host": None if report.host is None else _part(report.host),
    }


def _part(part: DeviceEnergy) -> dict[str, Any]:
    return {
        "name": part.name,
        "index": part.index,
        "energy_j": part.energy_j,
        "uncertainty_j": part.uncertainty_j,
        "average_w": part.average_w,
        "peak_w": part.peak_w,
        "method": part.method,
        "why_not": part.why_not or None,
    }


def render_energy(report: EnergyReport, lang: str = "en") -> RenderableType:
    """Return what a command took.

    Args:
        report: of a command that has ended.
        lang: "en" or "zh".
    """
    parts: list[RenderableType] = [Text(), _headline(report, lang)]
    if report.parts:
        parts.append(Padding(_by_device(report, lang), _INDENT))
    else:
        parts.append(
            Padding(Text(tr("There is nothing here that tells its energy.", lang)), _INDENT)
        )
    if report.energy_j is not None:
        parts.append(Padding(_meaning(report, report.energy_j, lang), _INDENT))
    parts += [Padding(Text(note, style="dim"), _INDENT) for note in _notes(report, lang)]
    return Group(*parts)


def _headline(report: EnergyReport, lang: str) -> Text:
    shown = Text(tr("Energy", lang), style="bold")
    shown.append("  " + shlex.join(report.command), style="cyan")
    time = units.time(report.seconds, lang)
    if report.devices:
        shown.append("  " + _products(report))
    shown.append("  " + tr("{time}, exit code {code}", lang, time=time, code=report.exit_code))
    return shown


def _by_device(report: EnergyReport, lang: str) -> RenderableType:
    rows = table(
        Column(no_wrap=True),
        right(tr("energy", lang)),
        right("±"),
        right(tr("average", lang)),
        right(tr("peak", lang)),
        bars(),
        Column(tr("by", lang), style="dim", no_wrap=True),
    )
    most = max((part.energy_j or 0.0 for part in report.parts), default=0.0)
    for part in report.parts:
        share = (part.energy_j or 0.0) / most if most else 0.0
        rows.add_row(
            _name(part, lang),
            _or_dash(part.energy_j, units.energy, lang),
            _or_dash(part.uncertainty_j, units.energy, lang),
            _or_dash(part.average_w, units.power, lang),
            _or_dash(part.peak_w, units.power, lang),
            Bar(share, 12) if part.energy_j else Text(),
            render(METHODS[part.method], lang),
        )
    if len(report.parts) > 1 and report.energy_j is not None:
        rows.add_row(
            Text(tr("together", lang), style="bold"),
            Text(_at_least(report, lang), style="bold"),
            "",
            units.power(report.average_w, lang),
            "",
            "",
            "",
        )
    return rows


METHODS: dict[Method, Said] = {
    "counter": Said("counter"),
    "power": Said("integral"),
    "none": verbatim("–"),
}
"""How a device's energy was found, in words."""


def _at_least(report: EnergyReport, lang: str) -> str:
    """The sum; where a device is not in it, it is no more than a lower bound."""
    whole = all(part.energy_j is not None for part in report.parts)
    return ("" if whole else "≥ ") + units.energy(report.energy_j, lang)


def _or_dash(value: float | None, shown: units.Format, lang: str) -> str:
    return "–" if value is None else shown(value, lang)


def _name(part: DeviceEnergy, lang: str) -> str:
    return tr("host CPUs", lang) if part.index is None else f"GPU {part.index}"


def _products(report: EnergyReport) -> str:
    """What the devices are: "8 × NVIDIA H200"."""
    counts = Counter(part.name for part in report.devices)
    return ", ".join(f"{count} × {name}" for name, count in counts.items())


def _meaning(report: EnergyReport, energy_j: float, lang: str) -> RenderableType:
    rows = table(Column(style="dim", no_wrap=True), left(), header=False)
    wh = energy_j / JOULES_PER_KWH * 1000
    rows.add_row(tr("energy", lang), f"{_at_least(report, lang)} = {units.digits(wh)} Wh")
    grid = report.grid
    by = f"{grid.g_per_kwh:g} g/kWh, {render(grid.place, lang)}"
    if grid.year is not None:
        by += f" {grid.year}, {grid.source}"
    grams = units.digits(report.co2_g or 0.0)
    co2 = Text(tr("{grams} g of CO2 equivalent", lang, grams=grams))
    rows.add_row("CO2", co2.append(f"  ({by})", style="dim"))
    if report.cost_usd is not None:
        price = tr("${price}/kWh, as given", lang, price=f"{report.price_per_kwh:g}")
        cost = Text(units.money(report.cost_usd, lang)).append(f"  ({price})", style="dim")
        rows.add_row(tr("cost", lang), cost)
    return rows


def _notes(report: EnergyReport, lang: str) -> list[str]:
    notes = [
        f"{_name(part, lang)}{tr(': ', lang)}{render(part.why_not, lang)}"
        for part in report.parts
        if part.why_not
    ]
    if report.parts:
        notes.append(
            tr(
                "All that these devices drew meanwhile, idle power and others' work included; "
                "without power supplies, fans and cooling.",
                lang,
            )
        )
    if report.host is None and report.parts:
        notes.append(tr("The host's processors do not tell their energy here.", lang))
    if report.energy_j is not None and report.cost_usd is None:
        notes.append(tr("Cost: give the price of a kilowatt-hour, --price 0.12", lang))
    return notes
