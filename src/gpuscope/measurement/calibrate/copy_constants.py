"""What pageable copies cost on this host: as measured, since they are its CPU's work.

A staged copy runs at the CPU's pace: that of its cache up to some size, that of its memory beyond
(`gpuscope.cost.copy.transfer`). Both belong to the host, like its calls: nothing is carried from
another one, and two sizes say both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from statistics import median

from gpuscope.cost.copy.transfer import HOST_CACHE_BYTES, STAGED_ABOVE_BYTES, link_rate
from gpuscope.hardware import CalibratedValue, Device
from gpuscope.measurement.bench.types import Point

_LEAST_SPREAD = 0.1
"""Least relative half-width: points of one host and one size agree within it from bench to bench of
three hosts."""


def copy_constants(points: Iterable[Point], device: Device) -> dict[str, CalibratedValue]:
    """`transfer.<way>_pageable.*` of a host whose staged copies were timed; empty without any.

    Args:
        points: of the bench "transfers".
        device: whose host link it was.

    Returns:
        Shares of the link's rate from the CPU's cache ("efficiency") and, where a copy that
        outgrows it was timed, from its memory ("beyond.efficiency"); "scale" holds how far the
        timed copies are from what both say.
    """
    found: dict[str, CalibratedValue] = {}
    timed = [p for p in points if p.family == "transfer" and p.median_s]
    for way in ("h2d", "d2h"):
        name = f"{way}_pageable"
        copies = sorted(
            (float(p.params["bytes"]), float(p.median_s or 0.0))
            for p in timed
            if p.params.get("op") == name and float(p.params["bytes"]) > STAGED_ABOVE_BYTES
        )
        found |= _of_way(f"transfer.{name}", copies, link_rate(device))
    return found


def _of_way(
    name: str, copies: Sequence[tuple[float, float]], link: float
) -> dict[str, CalibratedValue]:
    """From (bytes, seconds) of one direction, sorted."""
    cached = [size / s for size, s in copies if size <= HOST_CACHE_BYTES]
    if not cached:
        return {}
    fast = median(cached)
    rests = [
        (size - HOST_CACHE_BYTES) / (s - HOST_CACHE_BYTES / fast)
        for size, s in copies
        if size > HOST_CACHE_BYTES and s > HOST_CACHE_BYTES / fast
    ]
    rates = {"efficiency": fast}
    if rests:
        rates["beyond.efficiency"] = median(rests)
    errors = sorted(abs(s / _said_s(size, fast, rates) - 1) for size, s in copies)
    spread = max(_LEAST_SPREAD, errors[ceil(0.8 * len(errors)) - 1])
    note = f"{len(copies)} copies on this host"
    found = {
        f"{name}.{key}": CalibratedValue(
            rate / link,
            "1",
            "measured",
            rate / link * (1 - spread),
            rate / link * (1 + spread),
            note,
        )
        for key, rate in rates.items()
    }
    found[f"{name}.scale"] = CalibratedValue(1.0, "1", "measured", 1 - spread, 1 + spread, note)
    return found


def _said_s(size: float, fast: float, rates: dict[str, float]) -> float:
    """Seconds of a copy by the rates found."""
    beyond = max(0.0, size - HOST_CACHE_BYTES)
    return (size - beyond) / fast + beyond / rates.get("beyond.efficiency", fast)
