"""Quantities over time that a trace holds beside its events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuscope.timeline.kineto.records import UNUSABLE
from gpuscope.timeline.kineto.table import Table
from gpuscope.timeline.types import Counter

_HOST = 0
"""PyTorch's device type of the host's memory."""


def memory_counters(table: Table, zero_ns: int) -> tuple[Counter, ...]:
    """Allocated and reserved bytes from the allocator's `[memory]` instants.

    Of several devices the one with most instants counts. Traces of 2021 have only differences,
    from an unknown begin: those give no counter.
    """
    points = table.memory.join(("time_ns", "type", "device", "allocated", "reserved"))
    on_device = (points["type"] > _HOST) & (points["allocated"] >= 0)
    on_device &= points["time_ns"] != UNUSABLE
    if not on_device.any():
        return ()
    devices, counts = np.unique(points["device"][on_device], return_counts=True)
    on_device &= points["device"] == devices[np.argmax(counts)]
    found = []
    for name in ("allocated", "reserved"):
        chosen = on_device & (points[name] >= 0)
        if chosen.any():
            time = points["time_ns"][chosen] - zero_ns
            order = np.argsort(time, kind="stable")
            value = points[name][chosen].astype(np.float64)
            found.append(Counter(name, "bytes", time[order], value[order]))
    return tuple(found)


def value_counters(table: Table, zero_ns: int) -> tuple[Counter, ...]:
    """Counter events ("C") by name and series."""
    series: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for time, name, args in table.counters:
        for key, value in args.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                series.setdefault((name, key), []).append((time, float(value)))
    if table.is_own:  # there the series is the unit
        return tuple(_counter(n, key, points, zero_ns) for (n, key), points in series.items())
    return tuple(
        _counter(f"{name} {key}".strip(), "", points, zero_ns)
        for (name, key), points in series.items()
    )


def _counter(name: str, unit: str, points: Sequence[tuple[int, float]], zero_ns: int) -> Counter:
    time = np.array([point[0] for point in points], np.int64) - zero_ns
    order = np.argsort(time, kind="stable")
    value = np.array([point[1] for point in points], np.float64)
    return Counter(name, unit, time[order], value[order])
