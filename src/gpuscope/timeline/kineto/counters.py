"""Quantities over time that a trace holds beside its events."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuscope.timeline.kineto.header import whole
from gpuscope.timeline.kineto.table import Table
from gpuscope.timeline.types import Counter

_TOTALS = (("allocated", "Total Allocated"), ("reserved", "Total Reserved"))
_CPU = 0
"""PyTorch's device type of the host's memory."""


def memory_counters(
    memory: Sequence[tuple[int, dict[str, Any]]], zero_ns: int
) -> tuple[Counter, ...]:
    """Allocated and reserved bytes from the allocator's `[memory]` instants.

    Of several devices the one with most instants counts. Traces of 2021 have only differences,
    from an unknown begin: those give no counter.
    """
    entries = [
        (time, args)
        for time, args in memory
        if whole(args.get("Device Type")) not in (None, _CPU) and "Total Allocated" in args
    ]
    devices = Tally(whole(args.get("Device Id")) for _, args in entries)
    if not devices:
        return ()
    main = devices.most_common(1)[0][0]
    entries = [e for e in entries if whole(e[1].get("Device Id")) == main]
    found = []
    for name, key in _TOTALS:
        points = [(time, whole(args.get(key))) for time, args in entries]
        times = [(time, value) for time, value in points if value is not None and value >= 0]
        if times:
            found.append(_counter(name, "bytes", times, zero_ns))
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


def _counter(
    name: str, unit: str, points: Sequence[tuple[int, float]], zero_ns: int
) -> Counter:
    time = np.array([point[0] for point in points], np.int64) - zero_ns
    order = np.argsort(time, kind="stable")
    value = np.array([point[1] for point in points], np.float64)
    return Counter(name, unit, time[order], value[order])
