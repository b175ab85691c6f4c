"""Memory rows (or pages, on older devices) that were replaced after errors.

Source: NVIDIA, "GPU Memory Error Management": row remapping from Ampere on, page retirement before;
a failed remapping is a reason for replacement, a pending one asks for a reset.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, plural

Values = dict[str, float | int | str | bool | None]

_BY = "NVML: nvmlDeviceGetRemappedRows (nvidia-smi -q -d ROW_REMAPPER)"


@check("remapped_rows", "health", Text("Memory rows or pages that were replaced after errors"))
def remapped_rows(machine: Machine) -> Iterable[Finding]:
    """Look at each device that can replace rows or pages."""
    devices = [
        d for d in nvidia_devices(machine) if d.get("remapped_rows") or d.get("retired_pages")
    ]
    found = [f for d in devices for f in (*_rows(d), *_pages(d))]
    yield from found
    if devices and not found:
        names = gpus(d.index for d in devices)
        yield Finding(
            "remapped_rows",
            "ok",
            Text("No bad memory rows."),
            Text("{names}: no row replaced.", names=names),
            known_by=_BY,
            values={"uncorrectable": 0},
        )


def _reset(device: NvidiaDevice) -> tuple[str, ...]:
    return (f"sudo nvidia-smi --gpu-reset -i {device.index}",)


def _rows(device: NvidiaDevice) -> Iterable[Finding]:
    bad = device.number("remapped_rows", "uncorrectable") or 0
    soft = device.number("remapped_rows", "correctable") or 0
    spent = device.number("remapped_rows", "banks_by_spare_rows", "none") or 0
    name = gpus([device.index])
    values: Values = {
        "correctable": soft,
        "uncorrectable": bad,
        "banks_without_spare_rows": spent,
        "pending": device.get("remapped_rows", "pending"),
        "failure": device.get("remapped_rows", "failure"),
    }
    count = Text(
        "{bad} rows replaced after uncorrectable errors, {soft} after corrected ones.",
        bad=Number(bad, ".0f"),
        soft=Number(soft, ".0f"),
    )
    if device.get("remapped_rows", "failure"):
        yield _failed(device, count, values)
    elif device.get("remapped_rows", "pending"):
        yield _waiting(device, count, values)
    elif spent or bad:
        yield Finding(
            "remapped_rows",
            "warning" if spent else "note",
            Text("{name}: memory rows were replaced.", name=name),
            Text(
                "{count} {spent} banks have no spare rows left.",
                count=count,
                spent=Number(spent, ".0f"),
            ),
            Text("Replaced rows work as new; without spare rows the next error stays."),
            known_by=_BY,
            device=device.index,
            values=values,
        )


def _failed(device: NvidiaDevice, count: Text, values: Values) -> Finding:
    name = gpus([device.index])
    return Finding(
        "remapped_rows",
        "error",
        Text("{name}: a bad memory row cannot be replaced.", name=name),
        count,
        Text("The errors will come again."),
        Text("Have the device replaced."),
        ("nvidia-smi -q -d ROW_REMAPPER", "dcgmi diag -r 3"),
        _BY,
        device.index,
        values,
    )


def _waiting(device: NvidiaDevice, count: Text, values: Values) -> Finding:
    name = gpus([device.index])
    return Finding(
        "remapped_rows",
        "warning",
        Text("{name}: a bad memory row waits to be replaced.", name=name),
        count,
        Text("Until the reset the bad row stays in use: the next work may meet it."),
        Text("Reset the device when it is free."),
        _reset(device),
        _BY,
        device.index,
        values,
    )


def _pages(device: NvidiaDevice) -> Iterable[Finding]:
    pages = device.get("retired_pages") or {}
    count = (pages.get("double_bit") or 0) + (pages.get("single_bit") or 0)
    if not pages.get("pending") and count < 60:  # the driver's limit is 64 pages
        return
    name = gpus([device.index])
    yield Finding(
        "remapped_rows",
        "warning",
        Text("{name}: memory pages are being retired.", name=name),
        plural(
            "{count} page, more at the next reset.", "{count} pages, more at the next reset.", count
        )
        if pages.get("pending")
        else plural("{count} page.", "{count} pages.", count),
        Text("From 64 pages on NVIDIA replaces the device."),
        Text("Reset the device when it is free."),
        _reset(device),
        "NVML: nvmlDeviceGetRetiredPages",
        device.index,
        {"retired_pages": count},
    )
