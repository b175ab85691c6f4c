"""A sweep as a table and a curve, and which resource of the device is worth paying for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from gpuscope.document import format as units
from gpuscope.document.text import Text as Said
from gpuscope.document.text import render, verbatim
from gpuscope.run import Run
from gpuscope.run.figures import figures
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import Bar, bars, class_style, left, right, section, table
from gpuscope.views.words import class_label

Points = Sequence[tuple[float, Run]]


@dataclass(frozen=True, slots=True)
class Worth:
    """What more of one resource brings.

    Attributes:
        resource: in words ("memory bandwidth").
        elasticity: d log(step time) / d log(resource); -1: twice as much halves the time, 0: it
            changes nothing.
    """

    resource: Said
    elasticity: float

    @property
    def gain_of_ten_percent(self) -> float:
        """Share of the step time that 10 % more of the resource saves."""
        return float(1 - 1.1**self.elasticity)


def elasticity(less: tuple[float, float], more: tuple[float, float]) -> float:
    """Return d log(time) / d log(resource) between two points (resource, time), all positive."""
    return math.log(more[1] / less[1]) / math.log(more[0] / less[0])


def render_sweep(field: str, points: Points, lang: str = "en") -> RenderableType:
    """Return one row a point: time, rate, memory (energy under power limits) and limiter."""
    per_token = any(run.tokens is not None for _, run in points)
    rows = table(
        right(render(field_text(field), lang)),
        right(tr("step", lang)),
        bars(),
        right(tr("tokens/s", lang) if per_token else tr("samples/s", lang)),
        right(tr("energy/step", lang) if field == "tdp_w" else tr("peak memory", lang)),
        right(tr("elasticity", lang)),
        left(tr("mostly", lang)),
    )
    slowest_s = max(run.step_time_s for _, run in points)
    for number, (value, run) in enumerate(points):
        shown = figures(run)
        rate = shown.tokens_per_s if per_token else shown.samples_per_s
        size = Text(units.size(run.peak_memory_bytes, lang))
        if field == "tdp_w":  # the memory is the same at any limit
            size = Text(units.quantity(run.energy_j, "J", lang))
        if run.fits is False:
            size.stylize("bold red")
            size.append(" !")
        rows.add_row(
            format_value(field, value, lang),
            Text(units.time(run.step_time_s, lang), style="bold"),
            Bar(run.step_time_s / slowest_s, 14),
            units.count(rate, lang),
            size,
            _local(points, number),
            Text(class_label(shown.limiter, lang), style=class_style(shown.limiter)),
        )
    parts: list[RenderableType] = [rows]
    least = _least_energy(points, lang) if field == "tdp_w" else None
    if least is not None:
        parts.append(Text(least))
    name, target = points[0][1].name, points[0][1].target.partition(" [")[0]
    about = tr(
        "Elasticity: by how many per cent the step time changes for one per cent more since the "
        "row above; −1 pays off in full, 0 not at all.",
        lang,
    )
    if any(run.fits is False for _, run in points):
        about += " " + tr("! does not fit.", lang)
    return section(f"{name}: {target}", about, *parts)


def _least_energy(points: Points, lang: str) -> str | None:
    """The power limit that takes least for the same work, beside the highest; None: unknown."""
    known = [(value, run, run.energy_j) for value, run in points if run.energy_j is not None]
    if len(known) < 2:
        return None
    value, run, energy_j = min(known, key=lambda point: point[2])
    most, usual, most_j = max(known, key=lambda point: point[0])
    work = run.tokens or 1
    shown: dict[str, str] = {
        "limit": format_value("tdp_w", value, lang),
        "energy": units.quantity(energy_j / work, "J", lang),
        "most": format_value("tdp_w", most, lang),
        "other": units.quantity(most_j / work, "J", lang),
        "ratio": f"{run.step_time_s / usual.step_time_s:.2f}",
    }
    if run.tokens:
        return tr(
            "Least energy for each token: {limit}, {energy}; at {most} it is {other}. The step "
            "takes {ratio} times as long.",
            lang,
            **shown,
        )
    return tr(
        "Least energy for each step: {limit}, {energy}; at {most} it is {other}. The step takes "
        "{ratio} times as long.",
        lang,
        **shown,
    )


def _local(points: Points, number: int) -> str:
    if number == 0:
        return ""
    (value0, run0), (value1, run1) = points[number - 1], points[number]
    found = elasticity((value0, run0.step_time_s), (value1, run1.step_time_s))
    return f"{found:+.2f}".replace("-", "−")


def render_worth(found: Sequence[Worth], lang: str = "en") -> RenderableType:
    """Return the resources of the device, most useful first."""
    rows = table(left(tr("10 % more of", lang)), right(tr("step time", lang)), bars())
    ordered = sorted(found, key=lambda worth: worth.elasticity)
    for worth in ordered:
        gain = worth.gain_of_ten_percent
        sign = "−" if gain > 0 else "+"
        shown = sign + units.share(abs(gain), lang) if abs(gain) >= 5e-4 else tr("no change", lang)
        rows.add_row(render(worth.resource, lang), shown, Bar(gain / 0.1, 24, "green", "░"))
    rest = 1 + sum(min(0.0, worth.elasticity) for worth in found)
    about = tr(
        "A full bar: the step is 10 % faster too. Resources that change nothing are no loss "
        "to save on.",
        lang,
    )
    parts: list[RenderableType] = [rows]
    if rest > 0.05:
        sentence = tr(
            "About {share} of the step depends on none of these: the host, launches and latencies.",
            lang,
            share=units.share(rest, lang),
        )
        parts.append(Text(sentence, style="dim"))
    return section(tr("What is worth paying for", lang), about, *parts)


FIELDS: dict[str, Said] = {
    "batch": Said("batch"),
    "seq": Said("sequence"),
    "devices": Said("devices"),
    "memory_bandwidth_bytes_per_s": Said("memory bandwidth"),
    "memory_bytes": Said("memory"),
    "compute_units": Said("compute units"),
    "clock_hz": Said("clock"),
    "l2_bytes": Said("L2 cache"),
    "tdp_w": Said("power limit"),
    "launch_latency_s": Said("launch latency"),
    "scale_up_bandwidth_bytes_per_s": Said("scale-up bandwidth"),
    "host_link_bandwidth_bytes_per_s": Said("host link"),
    "price_usd_per_hour": Said("price per hour"),
}
"""English labels of what can be swept; other fields are shown by their own name."""


def field_text(field: str) -> Said:
    """Return what people call a field."""
    return FIELDS.get(field) or verbatim(field)


def format_value(field: str, value: float, lang: str = "en") -> str:
    """Return a value of a field with its unit, taken from the field's name."""
    for suffix, show in (
        ("_bytes_per_s", units.byte_rate),
        ("_bytes", units.size),
        ("_hz", _hertz),
        ("_usd_per_hour", units.money),
        ("_w", units.power),
        ("_s", units.time),
    ):
        if field.endswith(suffix) and not field.endswith("_units"):
            return show(value, lang)
    # Peak rates are swept by the name of their dtype ("bf16").
    return units.flop_rate(value, lang) if value > 1e9 else units.count(value, lang)


def _hertz(value: float | None, lang: str) -> str:
    return units.count(value, lang) + "Hz"
