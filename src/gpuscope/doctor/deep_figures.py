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
from gpuscope.explain.types import (
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
    Words,
)

_DEVICE = Column(Words("device", "设备"))
_KINDS: Mapping[str, Words] = {
    "inside": Words("in memory", "显存内"),
    "h2d_pinned": Words("from the host", "主机到设备"),
    "d2h_pinned": Words("to the host", "设备到主机"),
    "both_pinned": Words("both ways, each", "双向，每个方向"),
}


def deep_section(diagnosis: Diagnosis, machine: Machine) -> Section | None:
    """Tables, curves and a map of what the active tests measured; None if there is nothing.

    Args:
        diagnosis: tells which tests ran, and which devices stand out.
        machine: the one that was diagnosed; it gives its answers again.
    """
    blocks: list[Block] = []
    for check, figures, least in (
        (deep_products, _products, 1), (deep_copies, _copies, 1), (deep_pairs, _pairs, 2),
        (deep_sustained, _sustained, 1),
    ):  # fmt: skip
        name = check.NAME
        if name not in diagnosis.checks or not has_devices(machine, least):
            continue  # asking would begin the test
        answer = machine.probe(name, timeout_s=check.TIMEOUT_S)
        if answer:
            ill = {
                f.device for f in diagnosis.findings
                if f.check == name and f.severity in ("error", "warning") and f.device is not None
            }  # fmt: skip
            blocks += figures(answer, ill)
    if not blocks:
        return None
    return Section(Words("The devices at work, side by side", "各设备实测对比"), tuple(blocks))


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
        Words("Matrix products", "矩阵乘"),
        (_DEVICE, *(Column(Words(name, name), "flop/s") for name in names)),
        tuple(cells), _marked(rows, ill),
        Words("Every element compared; what stands out is marked.", "逐元素比较；异常者已标出。"),
    )  # fmt: skip


def _copies(answer: Mapping[str, Any], ill: set[int]) -> Iterator[Block]:
    rows = [row for row in _rows(answer) if "inside" in row]
    if not rows:
        return
    kinds = [kind for kind in _KINDS if any(kind in row for row in rows)]
    yield Table(
        Words("Copies", "拷贝"),
        (_DEVICE, *(Column(_KINDS[kind], "bytes/s") for kind in kinds)),
        tuple(
            (int(row["index"]), *(row.get(kind, {}).get("bytes_per_s") for kind in kinds))
            for row in rows
        ),
        _marked(rows, ill),
        Words(
            "In memory counts bytes read and bytes written.", "“显存内”读出与写入的字节都计入。"
        ),
    )  # fmt: skip


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
        Words("Copies from device to device", "设备间拷贝"),
        Axis(Words("to device", "到设备")), Axis(Words("from device", "从设备")),
        tuple(tuple(rates.get((a, b)) for b in devices) for a in devices),
        "bytes/s", x_labels=names, y_labels=names,
    )  # fmt: skip


def _sustained(answer: Mapping[str, Any], _: set[int]) -> Iterator[Block]:
    rows = [row for row in _rows(answer) if len(row.get("windows") or ()) > 1]
    if not rows:
        return
    seconds = Axis(Words("time", "时间"), "s")
    first = rows[0]
    device = models.known(str(first.get("name", "")))
    limit = (first.get("before") or {}).get("power_limit_w")
    should = (
        None
        if device is None or first.get("slice")
        else models.sustained(models.limited(device, limit), first["dtype"], int(first["side"]))
    )
    marks = (
        () if should is None
        else (Mark(Words("what it should hold", "应保持的速率"), y=should.rate),)
    )  # fmt: skip
    yield Lines(
        Words("Products under full load", "满载矩阵乘"), seconds,
        Axis(Words("rate", "速率"), "flop/s"),
        tuple(
            Series(
                _name(row), tuple(float(at) for at, _ in row["windows"]),
                tuple(float(rate) for _, rate in row["windows"]), role="tensor",
            )
            for row in rows
        ),
        marks,
    )  # fmt: skip
    for field, unit, name in (
        ("sm_clock_hz", "Hz", Words("Clock", "频率")),
        ("power_w", "W", Words("Power", "功耗")),
        ("temperature_c", "", Words("Temperature, °C", "温度（°C）")),
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
        title = Words(f"{name.en} under full load", f"满载{name.zh}")
        yield Lines(title, seconds, axis, tuple(series))


def _name(row: Mapping[str, Any]) -> Words:
    return Words(f"device {row['index']}", f"设备 {row['index']}")
