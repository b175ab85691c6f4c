"""No rate above what the device can do, no share above the whole."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuscope.analysis.roofs import Roofs
from gpuscope.analysis.types import Share
from gpuscope.document.text import Text
from gpuscope.invariants.book import Book
from gpuscope.invariants.output import Json, Output
from gpuscope.invariants.registry import invariant

ROUNDED = 6e-3
"""What rounding to three digits may add to a figure on a screen."""

MEASURED = 0.05
"""What a recorded time may be short of a datasheet's peak by: boost clocks above the stated one,
and a timer's grain on short kernels."""

_RATE = re.compile(r"(?<![\d.,])(\d[\d,]*(?:\.\d+)?) ([kMGTP]?)B/s")
_ARITHMETIC = re.compile(r"(?<![\d.,])(\d[\d,]*(?:\.\d+)?) ([kMGTPE]?)FLOP/s")
_SHARE = re.compile(r"(?<![\d.,+\-−])(\d[\d,]*(?:\.\d+)?) ?%")
_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}


@invariant("rates")
def rates(output: Output, book: Book) -> None:
    """Bytes and arithmetic over the time that they took, against the device's peaks; shares."""
    _tables(output, book)
    _roofline(output, book)
    _links(output, book)
    _curves(output, book)
    _shares(output, book)
    _power(output, book)
    _screens(output, book)
    _what_if(output, book)


def _room(output: Output) -> float:
    return 1e-6 if output.predicted else MEASURED


def _peak(output: Output) -> float | None:
    """The device's highest arithmetic rate."""
    peaks = Roofs(output.device).peaks() if output.device is not None else {}
    return max(peaks.values(), default=None)


def _fastest(output: Output) -> float | None:
    """The most bytes a second that any way of the device carries: memory, or its links."""
    device = output.device
    if device is None:
        return None
    links = (device.host_link, device.scale_up, device.scale_out)
    rates = [link.bandwidth_bytes_per_s for link in links if link is not None]
    return max((device.memory_bandwidth_bytes_per_s, *(rate for rate in rates if rate)))


def _tables(output: Output, book: Book) -> None:
    analysis = output.run.analysis
    tables: dict[str, Sequence[Share]] = {
        "kinds": analysis.kinds,
        "operators": analysis.operators,
        "symbols": analysis.symbols,
    }
    for table, rows in tables.items():
        for share in rows:
            _row(f"analysis.{table}: {share.label}", share, output, book)


def _row(name: str, share: Share, output: Output, book: Book) -> None:
    book.at_most(Text("best time and time of {row}", row=name), share.best_s, share.time_s)
    bytes_per_s, flops_per_s = share.bytes_per_s, share.flops_per_s
    what = Text("rate of {row}", row=name)
    book.at_most(what, bytes_per_s, _fastest(output), "bytes/s", within=_room(output))
    book.at_most(what, flops_per_s, _peak(output), "flop/s", within=_room(output))


def _roofline(output: Output, book: Book) -> None:
    roofline = output.run.analysis.roofline
    for point in roofline.points if roofline is not None else ():
        what = Text("rate of {row}", row=f"analysis.roofline: {point.label}")
        peak = _peak(output)
        book.at_most(what, point.flops_per_s, peak, "flop/s", within=_room(output))
        if output.predicted and point.limiter in ("memory", "compute", "tensor_core"):
            book.at_most(what, point.flops_per_s, point.roof_flops_per_s, "flop/s", within=1e-6)


def _links(output: Output, book: Book) -> None:
    analysis, device = output.run.analysis, output.device
    for copy in analysis.copies:
        what = Text("rate of {row}", row=f"analysis.copies: {copy.direction}")
        rate, link = copy.rate_bytes_per_s, copy.link_bytes_per_s
        book.at_most(what, rate, link, "bytes/s", within=_room(output))
        book.at_most(
            Text("hidden and whole time of {row}", row=f"copies: {copy.direction}"),
            copy.exposed_s,
            copy.time_s,
        )
    talk = analysis.communication
    link_rate = device.scale_up.bandwidth_bytes_per_s if device and device.scale_up else None
    for sort in talk.sorts if talk is not None else ():
        what = Text("rate of {row}", row=f"analysis.communication: {sort.name}")
        book.at_most(what, sort.bus_bytes_per_s, link_rate, "bytes/s", within=_room(output))


def _curves(output: Output, book: Book) -> None:
    for series in output.use["series"]:
        if series["key"] == "power":
            continue  # kernels may draw more for a while: the average is limited, see _power
        what = Text("highest value of {row}", row=f"use.{series['key']}")
        book.at_most(
            what,
            max(series["values"], default=None),
            series["limit"],
            series["unit"],
            within=max(_room(output), 1e-6),
        )


def _shares(output: Output, book: Book) -> None:
    run, analysis = output.run, output.run.analysis
    found: dict[str, float | None] = {
        "figures.mfu": output.figures["mfu"],
        "figures.hfu": output.figures["hfu"],
    }
    if analysis.launches is not None:
        found["analysis.launches.empty_share"] = analysis.launches.empty_share
        found["analysis.launches.short_share"] = analysis.launches.short_share
    for task in analysis.tasks:
        found[f"analysis.tasks: {task.label}: occupancy"] = task.occupancy
        found[f"analysis.tasks: {task.label}: tail_loss"] = task.tail_loss
    for name, share in found.items():
        book.at_most(Text("share {row}", row=name), share, 1.0, "share")
    if output.figures["mfu"] is not None and output.figures["hfu"] is not None:
        book.at_most(
            Text("share {row}", row="figures.mfu, figures.hfu"),
            output.figures["mfu"],
            output.figures["hfu"],
            "share",
        )
    if run.fits and analysis.memory is not None:
        book.at_most(
            Text("share {row}", row="peak_memory_bytes"),
            run.peak_memory_bytes,
            analysis.memory.capacity_bytes,
            "bytes",
        )


def _power(output: Output, book: Book) -> None:
    """The average of a step is held under the board's limit."""
    limit_w = output.device.tdp_w if output.device is not None else None
    energy, step_s = output.run.analysis.energy, output.run.step_time_s
    if energy is not None:
        book.at_most(
            Text("power {row}", row="analysis.energy"),
            energy.average_w,
            limit_w,
            "W",
            within=_room(output),
        )
    for rank in output.run.rank_results:
        power_w = None if rank.energy_j is None else rank.energy_j / step_s
        name = f"rank_results: {rank.rank}"
        book.at_most(Text("power {row}", row=name), power_w, limit_w, "W", within=1e-6)


def _screens(output: Output, book: Book) -> None:
    """What a reader can look up: no rate on the screen above the datasheet's, no share above 1."""
    fastest, peak = _fastest(output), _peak(output)
    for lang, screen in output.screens.items():
        name = Text("highest rate on the screen ({lang})", lang=lang)
        room = ROUNDED + _room(output)
        book.at_most(name, _largest(_RATE, screen), fastest, "bytes/s", within=room)
        book.at_most(name, _largest(_ARITHMETIC, screen), peak, "flop/s", within=room)
        share = max((float(m[1].replace(",", "")) for m in _SHARE.finditer(screen)), default=0.0)
        name = Text("highest share on the screen ({lang})", lang=lang)
        book.at_most(name, share / 100, 1.0, "share", within=ROUNDED)


def _largest(pattern: re.Pattern[str], screen: str) -> float | None:
    found = (float(m[1].replace(",", "")) * _PREFIX[m[2]] for m in pattern.finditer(screen))
    return max(found, default=None)


def _what_if(output: Output, book: Book) -> None:
    for lines in output.blocks("lines"):
        if lines["y"]["unit"] == "share":
            for series in lines["series"]:
                _below_one(series, book)


def _below_one(series: Json, book: Book) -> None:
    highest = max((y for y in series["y"] if y is not None), default=None)
    book.at_most(
        Text("share {row}", row=f"what_if: {series['label']['en']}"), highest, 1.0, "share"
    )
