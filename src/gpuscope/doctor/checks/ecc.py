"""Errors of device memory (ECC): since the driver was loaded, and over the device's life.

Source: NVIDIA, "GPU Memory Error Management": an uncorrectable error ends the work that met it and
asks for a reset; corrected ones are repaired and harmless in small numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text

Values = dict[str, float | int | str | bool | None]

_BY = "NVML: nvmlDeviceGetTotalEccErrors (nvidia-smi -q -d ECC)"
_MANY_CORRECTED = 1000


@check("ecc", "health", Text("Errors of device memory, corrected and not"))
def ecc(machine: Machine) -> Iterable[Finding]:
    """Look at counters and mode of each device that has ECC."""
    devices = [d for d in nvidia_devices(machine) if d.get("ecc", "mode") is not None]
    found = [f for d in devices for f in (*_counts(d), *_pending(d))]
    yield from found
    off = [d for d in devices if d.get("ecc", "mode") is False]
    if off:
        yield _off(off)
    if devices and not found and not off:
        names = gpus(d.index for d in devices)
        yield Finding(
            "ecc",
            "ok",
            Text("No memory errors."),
            Text("{names}: ECC on, none uncorrected.", names=names),
            known_by=_BY,
            values={"volatile_uncorrected": 0},
        )


def _counts(device: NvidiaDevice) -> Iterable[Finding]:
    now = device.number("ecc", "volatile_uncorrected") or 0
    ever = device.number("ecc", "aggregate_uncorrected") or 0
    corrected = device.number("ecc", "volatile_corrected") or 0
    name = gpus([device.index])
    values: Values = {
        "volatile_uncorrected": now,
        "aggregate_uncorrected": ever,
        "volatile_corrected": corrected,
    }
    if now:
        yield _uncorrected(device, now, ever, values)
    elif ever:
        yield Finding(
            "ecc",
            "note",
            Text("{name} once had uncorrectable errors.", name=name),
            Text(
                "{ever} over its life, none since the driver was loaded.", ever=Number(ever, ".0f")
            ),
            known_by=_BY,
            device=device.index,
            values=values,
        )
    if corrected >= _MANY_CORRECTED:
        yield Finding(
            "ecc",
            "note",
            Text("{name} corrects many memory errors.", name=name),
            Text("{corrected} since the driver was loaded.", corrected=Number(corrected, ",.0f")),
            Text("Results are right; the device may be ageing."),
            known_by=_BY,
            device=device.index,
            values=values,
        )


def _uncorrected(device: NvidiaDevice, now: float, ever: float, values: Values) -> Finding:
    name = gpus([device.index])
    return Finding(
        "ecc",
        "error",
        Text("{name} has uncorrectable memory errors.", name=name),
        Text(
            "{now} since the driver was loaded, {ever} over its life.",
            now=Number(now, ".0f"),
            ever=Number(ever, ".0f"),
        ),
        Text("Work that touches the bad place ends with an error; more may follow."),
        Text(
            "Drain the device, reset it or restart the host, then test it; replace it if rows "
            "cannot be remapped."
        ),
        (f"sudo nvidia-smi --gpu-reset -i {device.index}", "dcgmi diag -r 3"),
        _BY,
        device.index,
        values,
    )


def _pending(device: NvidiaDevice) -> Iterable[Finding]:
    now, later = device.get("ecc", "mode"), device.get("ecc", "mode_pending")
    if later is not None and now != later:
        name = gpus([device.index])
        yield Finding(
            "ecc",
            "note",
            Text("{name}: the ECC mode changes at the next reset.", name=name),
            Text(
                "Now {now}, then {later}.",
                now=Text("on") if now else Text("off"),
                later=Text("on") if later else Text("off"),
            ),
            known_by=_BY,
            device=device.index,
            values={"mode": now, "mode_pending": later},
        )


def _off(off: list[NvidiaDevice]) -> Finding:
    names = gpus(d.index for d in off)
    return Finding(
        "ecc",
        "note",
        Text("{names}: ECC is off.", names=names),
        Text("The device has it."),
        Text("A flipped bit then changes results without a word."),
        None,
        ("sudo nvidia-smi -e 1   # then reset the device",),
        _BY,
        None,
        {"devices": len(off)},
    )
