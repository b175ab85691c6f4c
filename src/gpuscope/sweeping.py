"""One sweep: a workload predicted over a range of one quantity, of the device or of the workload.

`gs.sweep` and `gpuscope predict --sweep` both run this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from gpuscope.capturing import Workload, capture_each
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.hardware import Calibration, Cluster, calibration_for, parse_target
from gpuscope.hardware.device import REPLACEABLE
from gpuscope.hardware.units import WORKLOAD_COUNTS, field_for
from gpuscope.prediction import predict_captured
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.types import Program
from gpuscope.program.world import RankPrograms
from gpuscope.run import Run

__all__ = ["Sweep", "Swept", "changed_device", "checked_sweep", "run_sweep"]

OnPoint = Callable[[int, int], None]
"""Told before each point: its number from 1, and how many there are."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A checked sweep.

    Attributes:
        field: a `Device` field, a dtype (its peak rate), a workload option, or "devices".
        values: the points, in SI base units.
        over: what changes from point to point.
    """

    field: str
    values: tuple[float, ...]
    over: Literal["device", "devices", "option"]


@dataclass(frozen=True, slots=True)
class Swept:
    """A sweep's runs, and what was captured for it.

    Attributes:
        points: (value, run), in the order of the values.
        captured: the one program of all points; None where each point has its own.
    """

    points: tuple[tuple[float, Run], ...]
    captured: Program | RankPrograms | None


def checked_sweep(
    workload: Workload, cluster: Cluster, field: str, values: Sequence[float]
) -> Sweep:
    """Check a sweep before anything is captured; needs no torch.

    Args:
        workload: what is predicted.
        cluster: on what.
        field: see `Sweep`; short names ("memory_bandwidth") are understood.
        values: the points.

    Raises:
        UnknownNameError: no such figure.
        InvalidValueError: this workload or device has no such size, or a value cannot be.
    """
    if not values:
        raise InvalidValueError(Text("A sweep over no values cannot be."))
    points = tuple(map(float, values))
    if field == "devices":
        _whole(field, points)
        for value in points:
            parse_target(f"{int(value)}x{cluster.device.id}")
        return Sweep(field, points, "devices")
    if field in WORKLOAD_COUNTS:
        named = workload if isinstance(workload, str) else getattr(workload, "name", "")
        if not isinstance(workload, str) or ".py" in workload:
            raise InvalidValueError(
                Text("Cannot sweep '{field}' of {workload}.", field=field, workload=named)
                if named
                else Text("Cannot sweep '{field}' of this workload.", field=field),
                Text("Its size is fixed in its own code."),
                Text("Use a built-in model, or sweep a device figure such as memory_bandwidth."),
            )
        _whole(field, points)
        return Sweep(field, points, "option")
    name, _ = field_for(field)
    if name == "peak_flops_per_s":
        raise InvalidValueError(
            Text("'{sweep}': of which dtype?", sweep=field),
            Text("Each has its own peak."),
            Text("Type: --sweep bf16=500..2000TFLOPS"),
        )
    for value in points:
        changed_device(cluster, name, value)
    return Sweep(name, points, "device")


def run_sweep(
    workload: Workload,
    cluster: Cluster,
    sweep: Sweep,
    *,
    options: WorkloadOptions | None = None,
    calibration: Calibration | None = None,
    strict: bool = False,
    on_progress: OnPoint | None = None,
) -> Swept:
    """Predict every point; what all points share is captured once.

    Args:
        workload, cluster: as for `checked_sweep`.
        sweep: what it returned.
        options: for a workload given by name.
        calibration: constants; None: the catalogue's for the device.
        strict: refuse what is not understood instead of estimating it.
        on_progress: see `OnPoint`; told of point 0 before the capture.
    """
    tell = on_progress or (lambda number, total: None)
    constants = calibration or calibration_for(cluster.device)
    total = len(sweep.values)
    places = [_place(cluster, sweep, value) for value in sweep.values]
    captured: list[Program | RankPrograms] = []
    if sweep.over != "option":
        tell(0, total)
        captured = capture_each(workload, places, options, strict)
    runs = []
    for number, (value, place) in enumerate(zip(sweep.values, places, strict=True), start=1):
        tell(number, total)
        if sweep.over == "option":
            size: dict[str, Any] = {sweep.field: int(value)}
            own = replace(options or WorkloadOptions(), **size)
            program = capture_each(workload, [place], own, strict)[0]
        else:
            program = captured[number - 1]
        runs.append(predict_captured(program, place, constants, strict))
    one = bool(captured) and all(each is captured[0] for each in captured)
    return Swept(tuple(zip(sweep.values, runs, strict=True)), captured[0] if one else None)


def changed_device(cluster: Cluster, field: str, value: float) -> Cluster:
    """Return the cluster with one figure of its device changed; a dtype means its peak rate."""
    change: Mapping[str, Any] = (
        {field: value} if field in REPLACEABLE else {"peak_flops_per_s": {field: value}}
    )
    return cluster.with_device(cluster.device.replace(**change))


def _place(cluster: Cluster, sweep: Sweep, value: float) -> Cluster:
    if sweep.over == "option":
        return cluster
    if sweep.over == "device":
        return changed_device(cluster, sweep.field, value)
    return parse_target(f"{int(value)}x{cluster.device.id}").with_device(cluster.device)


def _whole(field: str, values: Sequence[float]) -> None:
    for value in values:
        if value != int(value) or value < 1:
            raise InvalidValueError(
                Text("{given} {field} cannot be.", given=Number(value, "g"), field=field),
                Text("They are counted: 1, 2, 3, ..."),
                Text("Give whole numbers to sweep over."),
            )
