"""Constants of collectives from measured ones: latency by protocol, share of the link's rate.

The model is that of `gpuscope.cost.collective.ways`: a base and a step latency for each of NCCL's
protocols, and for each collective and number of ranks the share of a link's rate that large
messages reach. A share is read off the largest messages; then all are fitted together, odd points
judging. Only collectives inside one scale-up domain are fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from gpuscope.hardware import CalibratedValue, Calibration, Device
from gpuscope.measurement.bench.types import Point
from gpuscope.measurement.calibrate.cases import CalibrationCase, trial
from gpuscope.measurement.calibrate.fitting import descend, loss, spread
from gpuscope.program.types import Op, TensorSpec

OPERATORS: Mapping[str, str] = {
    "all_reduce": "_c10d_functional::all_reduce",
    "all_gather": "_c10d_functional::all_gather_into_tensor",
    "reduce_scatter": "_c10d_functional::reduce_scatter_tensor",
    "all_to_all": "_c10d_functional::all_to_all_single",
    "broadcast": "_c10d_functional::broadcast",
}
"""Family of points -> the operator whose model times it."""

_LARGE_BYTES = 64 << 20
_LEAST_POINTS = 8
_ITEM_BYTES = 2


def collective_case(point: Point) -> CalibrationCase | None:
    """A measured collective as an operator; None for other points, and where the host set the pace.

    "queued" counts where it was taken; a plain "loop" leaves small messages to the host.
    """
    name = OPERATORS.get(point.family)
    if name is None or point.state != "queued" or not point.median_s:
        return None
    ranks, size = int(point.params["ranks"]), int(point.params["bytes"])
    part = _spec(size // ranks)
    whole = _spec(size)
    inputs, outputs = (whole,), (whole,)
    if point.family == "all_gather":
        inputs, outputs = (part,), (whole,)
    elif point.family == "reduce_scatter":
        inputs, outputs = (whole,), (part,)
    op = Op(0, name, inputs=inputs, outputs=outputs, args={"group_size": ranks})
    return CalibrationCase(point, (op,), ())


def _spec(size_bytes: int) -> TensorSpec:
    return TensorSpec((max(size_bytes // _ITEM_BYTES, 1),), (1,), "bfloat16")


def collective_constants(
    points: Iterable[Point], device: Device, base: Calibration
) -> dict[str, CalibratedValue]:
    """`collective.*` of this machine; empty where too few collectives were measured.

    Raises:
        UnsupportedError: the catalogue states no rate for the links between these devices.
    """
    cases = [case for point in points if (case := collective_case(point)) is not None]
    if len(cases) < _LEAST_POINTS:
        return {}
    start = _start(cases, device, base)
    train = [c for c in cases if not c.held_out] or cases
    judge = [c for c in cases if c.held_out] or cases
    values = start | descend_collectives(train, device, start)
    errors = collective_errors(judge, device, values)
    half = spread(errors)
    note = (
        f"fitted to {len(cases)} collectives of this machine, judged on {len(judge)}: "
        f"mean error {loss(errors):.0%}"
    )
    found = {
        name: CalibratedValue(
            value, "s" if name.endswith("_s") else "1", "calibrated", value, value, note
        )
        for name, value in values.items()
    }
    found["collective.scale"] = CalibratedValue(1.0, "1", "calibrated", 1 - half, 1 + half, note)
    return found


_KEPT = (".share", ".extra_s", ".growth", "protocols.measured", "nvls.efficiency", "nvls.enabled")
"""Ends of names that a short bench cannot tell: taken over where the same device was measured, so
that the model in use is the model that was fitted."""


def _start(cases: Iterable[CalibrationCase], device: Device, base: Calibration) -> dict[str, float]:
    """Latencies of the base (or of NCCL's tuner), shares from the largest messages."""
    from gpuscope.cost.collective.ways import PROTOCOLS

    values = {
        name: base.value(name)
        for name in base.names("collective")
        if name.endswith(_KEPT) and base.origin(name) in ("calibrated", "measured")
    }
    for p in PROTOCOLS:
        for name, published_s in (("base_s", p.base_s), ("link_s", p.link_s)):
            name = f"collective.{p.name}.{name}"
            values[name] = base.value(name) if name in base else published_s
    largest: dict[str, CalibrationCase] = {}
    for case in cases:
        name = f"collective.{case.point.family}.efficiency_{case.point.params['ranks']}"
        old = largest.get(name)
        if old is None or _size(case) > _size(old):
            largest[name] = case
    for name, case in largest.items():
        trying = {**values, name: 0.8}
        predicted = _predicted_s(case, device, trying)
        share = 0.8 * predicted / case.seconds if _size(case) >= _LARGE_BYTES else 0.8
        values[name] = min(max(share, 0.05), 2.0)
    return values


def _size(case: CalibrationCase) -> int:
    return int(case.point.params["bytes"])


def _predicted_s(case: CalibrationCase, device: Device, values: Mapping[str, float]) -> float:
    return sum(k.duration_s for k in case.kernels(device, trial(device, values)))


def collective_errors(
    cases: Sequence[CalibrationCase], device: Device, values: Mapping[str, float]
) -> list[float]:
    """ln(predicted / measured) of each case."""
    constants = trial(device, values)
    return [
        math.log(sum(k.duration_s for k in case.kernels(device, constants)) / case.seconds)
        for case in cases
    ]


def descend_collectives(
    cases: list[CalibrationCase], device: Device, values: Mapping[str, float]
) -> dict[str, float]:
    """Latencies and shares together; see `fitting.descend`."""
    names = [n for n in values if n.endswith((".base_s", ".link_s")) or ".efficiency_" in n]
    return descend(cases, device, values, names, errors_of=collective_errors)
