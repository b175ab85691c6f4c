"""From the points of a bench to a machine's own calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.hardware import CalibratedValue, Calibration, Device, Distance, calibration_for
from gpuscope.measurement.bench.types import BenchResult, Point
from gpuscope.measurement.calibrate.collective_constants import collective_constants
from gpuscope.measurement.calibrate.copy_constants import copy_constants
from gpuscope.measurement.calibrate.host_constants import host_constants
from gpuscope.measurement.calibrate.host_distributed import CONSTANT, distributed_entry
from gpuscope.measurement.calibrate.host_terms import host_terms
from gpuscope.measurement.calibrate.kernel_constants import kernel_constants
from gpuscope.measurement.calibrate.power_constants import power_constants

_CARRIED_REST = 0.1
"""Half-width of what all kernels of a kind may be off together where some constants are carried
(a judgement)."""

_FACTS = ("device", "driver", "torch", "cuda", "processor")

Say = Callable[[str], None]


def calibrate(
    points: Sequence[Point],
    device: Device,
    *,
    base: Calibration | None = None,
    measured_with: str = "",
    say: Say = lambda _text: None,
) -> Calibration:
    """Fit what a bench can determine; keep the physics and the rest of the nearest device.

    Kernels: few constants of each kind, held to where they start, each kind's interval from points
    that took no part. Host: measured call by call; what programs have beside calls from made-up
    programs. Constants without a measurement keep the base's value, widened where the base is
    another device.

    Args:
        points: of any benches, as `gpuscope bench` saves them.
        device: that was measured.
        base: where to start; the catalogue's constants for this device by default.
        measured_with: software and date, in words.
        say: told what is being fitted.

    Returns:
        Constants for this device, complete enough to predict with.

    Raises:
        InvalidValueError: no point that says anything of a constant.
    """
    start = base if base is not None else calibration_for(device)
    found: dict[str, CalibratedValue] = {}
    say(Text("Host …"))
    found |= host_constants(points, start)
    found |= _terms(points, _with(start, found, device))
    apart = distributed_entry(points, _with(start, found, device), start)
    found |= {CONSTANT: apart} if apart is not None else {}
    say(Text("Kernels …"))
    found |= kernel_constants(points, device, start, say)
    found |= copy_constants(points, device)
    say(Text("Collectives …"))
    found |= collective_constants(points, device, start)
    found |= power_constants(points, device)
    if not found:
        raise InvalidValueError(
            Text("Nothing here calibrates a device."),
            Text("None of {points} points is of a known kind.", points=len(points)),
            Text("Type: gpuscope bench"),
        )
    if start.distance is not Distance.SAME_DEVICE:
        found["device.scale"] = CalibratedValue(
            1.0,
            "1",
            "estimated",
            1 - _CARRIED_REST,
            1 + _CARRIED_REST,
            "what the bench did not measure is carried from another device",
        )
    result = _with(start, found, device)
    return replace(result, measured_with=measured_with or start.measured_with)


def _terms(points: Sequence[Point], constants: Calibration) -> dict[str, CalibratedValue]:
    terms = host_terms([p for p in points if p.family in ("program", "python")], constants)
    return dict(terms.entries) if terms is not None else {}


def _with(base: Calibration, found: dict[str, CalibratedValue], device: Device) -> Calibration:
    """The base with other constants on top, as measured on this very device."""
    entries = tuple(sorted({**dict(base.entries), **found}.items()))
    kernels = any(not name.startswith(("host.", "launch.", "power.")) for name in found)
    distance = Distance.SAME_DEVICE if kernels else base.distance
    return Calibration(device.id, device.id, distance, base.measured_with, entries)


def measured_with(result: BenchResult) -> str:
    """What a bench was made with, in words: device, software, processor, and the date."""
    facts = [f"{name} {result.machine[name]}" for name in _FACTS if result.machine.get(name)]
    return ", ".join([*facts, result.started[:10]])
