"""Constants of kernels from measured points: group by group, each with an interval."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from gpuscope.document.quantities import Share
from gpuscope.document.text import Text
from gpuscope.hardware import CalibratedValue, Calibration, Device
from gpuscope.measurement.bench.types import Point, params_key
from gpuscope.measurement.calibrate.cases import CalibrationCase, case_of, log_errors, traced, trial
from gpuscope.measurement.calibrate.fitting import Fitted, fit_group, spread

KINDS = (
    "attention",
    "convolution",
    "matmul",
    "recurrent",
    "optimizer",
    "sort",
    "gather",
    "normalization",
    "softmax",
    "loss",
    "reduction",
    "random",
    "copy",
    "transfer",
    "pointwise",
    "bandwidth",
)
"""First parts of constants' names, the most particular first: a call belongs to the first whose
constants its model looks up."""

MOST_CASES = 240
"""Points of one group that take part in a fit; a hash chooses among more."""

MOST_MOVED = 6
"""Constants of one group that are fitted at most."""

_PRODUCTS = ("{}", "{}_unaligned", "{}_odd", "wgmma_{}", "mma_{}")
"""Kernels of matrix products of a dtype, as their constants are named."""

_FIRST = ("bandwidth",)
"""Fitted before the rest, on whatever streams through memory: all others build on them."""

_STREAMS = frozenset({"pointwise", "bandwidth"})
_WHEN_MEASURED = "fitted to {n} points of this machine, judged on {m}: mean error {e:.0%}"
_KEPT = "carried; explains {n} points of this machine within {e:.0%}, not bettered by a fit"

Say = Callable[[str], None]


def kernel_constants(
    points: Iterable[Point], device: Device, base: Calibration, say: Say = lambda _text: None
) -> dict[str, CalibratedValue]:
    """The constants of `base` that the points changed or confirmed, with new intervals.

    Args:
        points: of any benches; those that no kernel model covers are left out.
        device: that was measured.
        base: where to start from (`calibration_for(device)`).
        say: told what is being fitted.
    """
    cases = [case for point in points if (case := case_of(point, device)) is not None]
    values = {name: entry.value for name, entry in base.entries}
    found: dict[str, CalibratedValue] = {}
    for name, members in _groups(cases, device, values):
        may_move = _movable(name)
        fitted = fit_group(members, device, values, may_move, MOST_MOVED)
        if fitted is None:
            continue
        before, after = Share(fitted.before), Share(fitted.after)
        say(
            Text(
                "{name}: {points} points, error {before} -> {after}",
                name=name,
                points=fitted.points,
                before=before,
                after=after,
            )
        )
        values |= fitted.values
        found |= _entries(name, fitted, members, device, values, base)
    found |= _limiters([c for c in cases if _kind(c, device, values) == "matmul"], device, values)
    return found


def _groups(
    cases: Sequence[CalibrationCase], device: Device, values: Mapping[str, float]
) -> list[tuple[str, list[CalibrationCase]]]:
    """Groups in the order of fitting: memory, then kinds by name, matrix products by dtype."""
    groups: dict[str, list[CalibrationCase]] = defaultdict(list)
    for case in cases:
        kind = _kind(case, device, values)
        if kind in _STREAMS:
            groups[_FIRST[0]].append(case)
        if kind == "bandwidth" or not kind:
            continue
        part = {"matmul": "dtype", "convolution": "dir", "attention": "dir", "transfer": "op"}
        about = case.point.params.get(part.get(kind, ""), "")
        groups[f"{kind}.{about}" if about else kind].append(case)
    order = sorted(groups, key=lambda name: (name not in _FIRST, name))
    return [(name, _thinned(groups[name])) for name in order]


def _kind(case: CalibrationCase, device: Device, values: Mapping[str, float]) -> str:
    """The most particular kind of constant that the case's models look up."""
    asked = {name.partition(".")[0] for name in traced([case], device, values).asked}
    return next((kind for kind in KINDS if kind in asked), "")


def _thinned(cases: list[CalibrationCase]) -> list[CalibrationCase]:
    if len(cases) <= MOST_CASES:
        return cases
    return sorted(
        cases,
        key=lambda c: zlib.crc32(f"{c.point.family}{params_key(c.point.params)}".encode()[::-1]),
    )[:MOST_CASES]


def _movable(group: str) -> Callable[[str], bool]:
    kind, _, about = group.partition(".")
    if kind == "matmul":
        own = tuple(f"matmul.{way.format(about)}." for way in _PRODUCTS)
        return lambda name: name.startswith(own)
    if kind == "transfer":
        return lambda name: name.startswith(f"transfer.{about}.")
    return lambda name: name.startswith(f"{kind}.") and not name.endswith(".scale")


def _entries(
    group: str,
    fitted: Fitted,
    cases: Sequence[CalibrationCase],
    device: Device,
    values: Mapping[str, float],
    base: Calibration,
) -> dict[str, CalibratedValue]:
    """Moved constants and the group's intervals."""
    asked = traced(cases, device, values)
    kind = group.partition(".")[0]
    moved = _WHEN_MEASURED.format(n=fitted.points, m=fitted.judged, e=fitted.after)
    found = {}
    for name, value in fitted.values.items():
        unit = base.entry(name).unit
        half = fitted.spread * value
        found[name] = CalibratedValue(value, unit, "calibrated", value - half, value + half, moved)
    note = moved if fitted.values else _KEPT.format(n=fitted.points, e=fitted.after)
    for name in asked.widths:
        if name.partition(".")[0] != kind or kind == "matmul":
            continue
        old = base.entry(name).value if name in base else 1.0
        if name.endswith(".scale"):
            old = 1.0
        elif name not in base:
            continue
        value = found[name].value if name in found else old
        unit = base.entry(name).unit if name in base else "1"
        half = fitted.spread * value
        found[name] = CalibratedValue(value, unit, "calibrated", value - half, value + half, note)
    return found


def _limiters(
    cases: Sequence[CalibrationCase], device: Device, values: Mapping[str, float]
) -> dict[str, CalibratedValue]:
    """Intervals of matrix products by what limits them, from the judging points."""
    constants = trial(device, values)
    errors: dict[str, list[float]] = defaultdict(list)
    judging = [c for c in _thinned(list(cases)) if c.held_out]
    for case, error in zip(judging, log_errors(judging, device, values), strict=True):
        kernels = case.kernels(device, constants)
        if kernels:
            errors[max(kernels, key=lambda k: k.duration_s).limiter].append(error)
    return {
        f"matmul.{limiter}.scale": CalibratedValue(
            1.0,
            "1",
            "calibrated",
            1 - spread(found),
            1 + spread(found),
            f"80 % of {len(found)} judging points of this machine",
        )
        for limiter, found in errors.items()
        if len(found) >= 5
    }
