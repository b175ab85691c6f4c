"""The card of each value that shows itself."""

from __future__ import annotations

import math

from gpuscope.analysis.compare import Comparison, Difference
from gpuscope.analysis.symbols import short_symbol
from gpuscope.document import format as units
from gpuscope.document.blocks import Bar, Bars, Explanation, Part
from gpuscope.document.text import render, verbatim
from gpuscope.hardware import Cluster, Device, Interconnect
from gpuscope.hardware.device import RATE_DTYPES
from gpuscope.run import Run
from gpuscope.run.figures import figures
from gpuscope.views.compare import signed_time
from gpuscope.views.figures import finding_text, gain_text
from gpuscope.views.i18n import tr
from gpuscope.views.notebook import parts
from gpuscope.views.notebook.blocks import block_html
from gpuscope.views.quantities import words
from gpuscope.views.run_figures.shares import classes
from gpuscope.views.words import class_label, word

_FINDINGS = 3
_ROWS = 8
_CHARTS = 8


def run_card(run: Run, lang: str) -> str:
    """Return a run: headline figures with intervals, the breakdown, the first findings."""
    where = tr("{origin} on", lang, origin=word(run.origin, lang)) + " " + render(run.target, lang)
    breakdown = classes(run)
    body = [parts.tiles(_headline(run, lang))]
    if breakdown is not None:
        body.append(parts.heading(tr("Where the time goes", lang)))
        body.append(parts.stack(breakdown, lang))
    return parts.frame(run.name, where, *body, _findings(run, lang))


def _headline(run: Run, lang: str) -> list[tuple[str, str, str]]:
    shown, story, used = figures(run), run.analysis.memory, run.analysis.utilisation
    tiles = []
    if not math.isnan(run.step_time_s):
        low, high = (units.time(end, lang) for end in run.step_time_interval_s)
        tiles.append(
            (
                tr("Step time", lang),
                units.time(run.step_time_s, lang),
                f"{low} – {high}" if low != high else "",
            )
        )
    if shown.tokens_per_s is not None:
        tiles.append((tr("Throughput", lang), units.count(shown.tokens_per_s, lang), "tokens/s"))
    elif shown.samples_per_s is not None:
        rate = tr("samples/s", lang)
        tiles.append((tr("Throughput", lang), units.count(shown.samples_per_s, lang), rate))
    capacity = story.capacity_bytes if story else None
    of = tr("of {size}", lang, size=units.size(capacity, lang)) if capacity else ""
    tiles.append((tr("Peak memory", lang), units.size(run.peak_memory_bytes, lang), of))
    if run.energy_j is not None:
        power = run.analysis.energy.average_w if run.analysis.energy else None
        each = tr("{power} on average", lang, power=units.power(power, lang)) if power else ""
        tiles.append((tr("Energy", lang), units.energy(run.energy_j, lang), each))
    if used is not None:
        tiles.append(("MFU", units.share(used.mfu, lang), ""))
    return tiles


def _findings(run: Run, lang: str) -> str:
    found = run.analysis.findings[:_FINDINGS]
    if not found:
        return ""
    known = []
    for number, finding in enumerate(found, 1):
        title, evidence, hint = finding_text(finding, lang)
        gain = gain_text(finding, run, lang)
        known.append(parts.text(f"{number}. {title}"))
        known.append(parts.text(gain + evidence + (f" → {hint}" if hint else ""), quiet=True))
    return parts.heading(tr("What to change first", lang)) + "".join(known)


def comparison_card(found: Comparison, lang: str) -> str:
    """Return two runs side by side, and where they differ."""
    a, b = render(found.a, lang), render(found.b, lang)
    summary = render(found.summary, lang)
    speed = "" if found.speedup is None else units.ratio(found.speedup, lang)
    tiles = [
        (f"a · {a}", units.time(found.a_s, lang), ""),
        (f"b · {b}", units.time(found.b_s, lang), ""),
        (tr("speed", lang), speed, "a / b"),
    ]
    return parts.frame(
        f"{a} → {b}",
        summary,
        parts.tiles(tiles),
        _differences(tr("By class", lang), found.classes, lang),
        _differences(tr("By operator", lang), found.operators, lang),
    )


def _differences(title: str, rows: tuple[Difference, ...], lang: str) -> str:
    widest = max((abs(row.difference_s) for row in rows), default=0.0)
    telling = [row for row in rows if abs(row.difference_s) > 1e-3 * widest][:_ROWS]
    if not telling:
        return ""
    body = [
        (
            short_symbol(class_label(row.label, lang)),
            units.time(row.a_s, lang),
            units.time(row.b_s, lang),
            signed_time(row.difference_s, lang),
            render(row.reason, lang),
        )
        for row in telling
    ]
    return parts.heading(title) + parts.table(("", "a", "b", "b − a", ""), body, left=(0, 4))


def device_card(device: Device, lang: str) -> str:
    """Return a device: what it holds, moves and computes at most."""
    about = " · ".join(
        str(part) for part in (device.vendor, device.architecture, device.launch_year) if part
    )
    return parts.frame(
        device.name, about, parts.tiles(_device_tiles(device, lang)), _peaks(device, lang)
    )


def _device_tiles(device: Device, lang: str) -> list[tuple[str, str, str]]:
    tiles = [
        (tr("memory", lang), units.size(device.memory_bytes, lang), device.memory_type or ""),
        (
            tr("memory bandwidth", lang),
            units.byte_rate(device.memory_bandwidth_bytes_per_s, lang),
            "",
        ),
    ]
    if device.compute_units:
        clock = units.frequency(device.clock_hz, lang) if device.clock_hz else ""
        tiles.append((f"{device.compute_unit_label}s", units.count(device.compute_units), clock))
    if device.l2_bytes:
        tiles.append(("L2", units.size(device.l2_bytes, lang), ""))
    for name, link in (
        (tr("link between devices", lang), device.scale_up),
        (tr("host link", lang), device.host_link),
    ):
        if link is not None:
            tiles.append((name, _speed(link, lang), tr("one direction", lang)))
    if device.tdp_w:
        tiles.append((tr("power limit", lang), units.power(device.tdp_w, lang), ""))
    if device.price_usd_per_hour:
        price = units.money(device.price_usd_per_hour, lang)
        tiles.append((tr("price per hour", lang), price, ""))
    return tiles


def _speed(link: Interconnect, lang: str) -> str:
    return units.byte_rate(link.bandwidth_bytes_per_s, lang)


def _peaks(device: Device, lang: str) -> str:
    """Dense peaks, widest dtype first."""
    rates = dict(device.peaks)
    bars = tuple(
        Bar(verbatim(rate), (Part(verbatim(rate), value, "tensor"),))
        for rate in RATE_DTYPES
        if (value := rates.get(f"{rate}_tensor", rates.get(rate))) is not None
    )
    if not bars:
        return ""
    title = tr("Dense peak rates", lang)
    return parts.heading(title) + parts.bars(Bars(verbatim(title), "flop/s", bars), lang)


def cluster_card(cluster: Cluster, lang: str) -> str:
    """Return a cluster: how many devices, and how they are joined."""
    about = tr(
        "{n} devices, {nodes} hosts with {each} each",
        lang,
        n=cluster.n_devices,
        nodes=cluster.nodes,
        each=cluster.devices_per_node,
    )
    tiles = [
        (tr("memory", lang), units.size(cluster.memory_bytes, lang), tr("of all together", lang))
    ]
    if cluster.scale_up is not None:
        domain = tr("among {n} devices", lang, n=cluster.scale_up_domain_devices)
        tiles.append((tr("link between devices", lang), _speed(cluster.scale_up, lang), domain))
    if cluster.scale_out_bandwidth_bytes_per_s:
        rate = units.byte_rate(cluster.scale_out_bandwidth_bytes_per_s, lang)
        tiles.append((tr("fabric", lang), rate, tr("for each device", lang)))
    known = [parts.text(render(line, lang), quiet=True) for line in cluster.assumptions[:4]]
    name = f"{cluster.n_devices} × {cluster.device.name}"
    inside = parts.fold(cluster.device.name, device_card(cluster.device, lang))
    return parts.frame(name, about, parts.tiles(tiles), *known, inside)


def explanation_card(explanation: Explanation, lang: str) -> str:
    """Return an explanation: its sentences, and its sections to open."""
    first, *rest = explanation.summary or (verbatim(""),)
    body = [parts.text(words(line, lang)) for line in rest]
    charts = 0
    for number, section in enumerate(explanation.sections):
        shown = []
        for block in section.blocks:
            drawn = block_html(block, lang) if charts < _CHARTS else ""
            charts += "<img" in drawn
            shown.append(drawn)
        body.append(parts.fold(words(section.title, lang), "".join(shown), opened=number == 0))
    commands = [parts.text(f"$ {command}", quiet=True) for command in explanation.commands]
    return parts.frame(words(explanation.title, lang), words(first, lang), *body, *commands)
