"""The figures of the active tests side by side, so that the device that differs is seen.

They are read from the tests' answers again, not from the findings: what is well is shown, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuscope.doctor import expected as models
from gpuscope.doctor.checks import deep_copies, deep_pairs, deep_products, deep_sustained
from gpuscope.doctor.deep import has_devices
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.types import Diagnosis
from gpuscope.document.blocks import (
    Axis,
    Block,
    Cell,
    Column,
    HeatMap,
    Lines,
    Mark,
    Section,
    Series,
    Table,
)
from gpuscope.document.text import Text, verbatim

_DEVICE = Column(Text("device"))
_KINDS: Mapping[str, Text] = {
    "inside": Text("in memory"),
    "h2d_pinned": Text("from the host"),
    "d2h_pinned": Text("to the host"),
    "both_pinned": Text("both ways, each"),
}


def deep_section(diagnosis: Diagnosis, machine: Machine) -> Section | None:
    """Tables, curves and a map of what the active tests measured; None if there is nothing.

    Args:
        diagnosis: tells which tests ran, and which devices stand out.
        machine: the one that was diagnosed; it gives its answers again.
    """
    blocks: list[Block] = []
    for check, figures, least in (
        (deep_products, _products, 1),
        (deep_copies, _copies, 1),
        (deep_pairs, _pairs, 2),
        (deep_sustained, _sustained, 1),
    ):
        name = check.NAME
        if name not in diagnosis.checks or not has_devices(machine, least):
            continue  # asking would begin the test
        answer = machine.probe(name, timeout_s=check.TIMEOUT_S)
        if answer:
            ill = {
                f.device
                for f in diagnosis.findings
                if f.check == name and f.severity in ("error", "warning") and f.device is not None
            }
            blocks += figures(answer, ill)
    if not blocks:
        return None
    return Section(Text("The devices at work, side by side"), tuple(blocks))


def _rows(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for row in answer.get("devices", ()) if not row.get("error")]


def _marked(rows: Sequence[Mapping[str, Any]], ill: set[int]) -> tuple[int, ...]:
    return tuple(at for at, row in enumerate(rows) if row["index"] in ill)


def _products(answer: Mapping[str, Any], ill: set[int]) -> Iterator[Block]:
    rows = [row for row in _rows(answer) if row.get("products")]
    timed = [
        {n: float(p["flops_per_s"]) for n, p in row["products"].items() if "flops_per_s" in p}
        for row in rows
    ]
    names = list(dict.fromkeys(name for row in timed for name in row))
    if not names:
        return
    cells: list[tuple[Cell, ...]] = [
        (int(row["index"]), *(rates.get(name) for name in names))
        for row, rates in zip(rows, timed, strict=True)
    ]
    yield Table(
        Text("Matrix products"),
        (_DEVICE, *(Column(verbatim(name), "flop/s") for name in names)),
        tuple(cells),
        _marked(rows, ill),
        Text("Every element compared; what stands out is marked."),
    )


def _copies(answer: Mapping[str, Any], ill: set[int]) -> Iterator[Block]:
    rows = [row for row in _rows(answer) if "inside" in row]
    if not rows:
        return
    kinds = [kind for kind in _KINDS if any(kind in row for row in rows)]
    yield Table(
        Text("Copies"),
        (_DEVICE, *(Column(_KINDS[kind], "bytes/s") for kind in kinds)),
        tuple(
            (int(row["index"]), *(row.get(kind, {}).get("bytes_per_s") for kind in kinds))
            for row in rows
        ),
        _marked(rows, ill),
        Text("In memory counts bytes read and bytes written."),
    )


def _pairs(answer: Mapping[str, Any], _: set[int]) -> Iterator[Block]:
    rates = {
        (int(p["from"]), int(p["to"])): float(p["bytes_per_s"])
        for p in answer.get("pairs") or ()
        if not p.get("error")
    }
    if not rates:
        return
    devices = sorted({each for pair in rates for each in pair})
    names = tuple(str(each) for each in devices)
    yield HeatMap(
        Text("Copies from device to device"),
        Axis(Text("to device")),
        Axis(Text("from device")),
        tuple(tuple(rates.get((a, b)) for b in devices) for a in devices),
        "bytes/s",
        x_labels=names,
        y_labels=names,
    )


def _sustained(answer: Mapping[str, Any], _: set[int]) -> Iterator[Block]:
    rows = [row for row in _rows(answer) if len(row.get("windows") or ()) > 1]
    if not rows:
        return
    seconds = Axis(Text("time"), "s")
    first = rows[0]
    device = models.known(str(first.get("name", "")))
    limit = (first.get("before") or {}).get("power_limit_w")
    should = (
        None
        if device is None or first.get("slice")
        else models.sustained(models.limited(device, limit), first["dtype"], int(first["side"]))
    )
    marks = () if should is None else (Mark(Text("what it should hold"), y=should.rate),)
    yield Lines(
        Text("Products under full load"),
        seconds,
        Axis(Text("rate"), "flop/s"),
        tuple(
            Series(
                _name(row),
                tuple(float(at) for at, _ in row["windows"]),
                tuple(float(rate) for _, rate in row["windows"]),
                role="tensor",
            )
            for row in rows
        ),
        marks,
    )
    for field, unit, name in (
        ("sm_clock_hz", "Hz", Text("Clock")),
        ("power_w", "W", Text("Power")),
        ("temperature_c", "", Text("Temperature, °C")),
    ):
        yield from _course(rows, seconds, field, Axis(name, unit))


def _course(
    rows: Sequence[Mapping[str, Any]], seconds: Axis, field: str, axis: Axis
) -> Iterator[Block]:
    series = []
    for row in rows:
        readings = row.get("readings") or ()
        values = tuple(reading.get(field) for reading in readings)
        if any(value is not None for value in values):
            at = tuple(float(reading["at_s"]) for reading in readings)
            series.append(Series(_name(row), at, values))
    if series:
        name = axis.label
        title = Text("{name} under full load", name=name)
        yield Lines(title, seconds, axis, tuple(series))


def _name(row: Mapping[str, Any]) -> Text:
    return Text("device {row}", row=row["index"])
