"""One kernel launch as Nsight Compute counted it."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

Dim = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Counted:
    """A launch and its counters; what was not counted is None.

    Attributes:
        symbol: the kernel's name, as the report has it.
        grid, block: of the launch; None where it does not say.
        time_s: on the device, alone: Nsight Compute lets nothing run beside it.
        dram_bytes: through device memory, both ways.
        dram, sm, tensor: share of what device memory, multiprocessors, tensor cores could do.
        l2_hits: share of L2's sectors that were there.
        occupancy: resident warps over the most possible, on average.
        waves: blocks over those that fit at once.
        registers: of a thread.
        clock_hz: of the multiprocessors, meanwhile.
    """

    symbol: str
    grid: Dim | None = None
    block: Dim | None = None
    time_s: float | None = None
    dram_bytes: float | None = None
    dram: float | None = None
    sm: float | None = None
    tensor: float | None = None
    l2_hits: float | None = None
    occupancy: float | None = None
    waves: float | None = None
    registers: float | None = None
    clock_hz: float | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """A counter as a report writes it."""

    name: str
    unit: str
    value: float


@cache
def _known() -> tuple[Mapping[str, tuple[int, str, str]], Mapping[str, Mapping[str, float]]]:
    """Rank, figure and sort by name; factors by sort and unit."""
    text = Path(__file__).with_name("figures.toml").read_text("utf-8")
    table = tomllib.loads(text)
    return {
        name: (rank, figure["name"], figure["sort"])
        for figure in table["figure"]
        for rank, name in enumerate(figure["names"])
    }, table["units"]


def wanted(name: str) -> bool:
    """Return whether anything is read of a counter of this name."""
    return name in _known()[0]


def counted(symbol: str, grid: Dim | None, block: Dim | None, found: Iterable[Metric]) -> Counted:
    """Return a launch by its counters, in whatever units they were written."""
    names, units = _known()
    best: dict[str, tuple[int, float]] = {}
    for metric in found:
        rank, figure, sort = names.get(metric.name, (0, "", ""))
        factor = units[sort].get(metric.unit) if sort else None
        # One label stands for several counters, by its unit: "Memory Throughput" in % and Gbyte/s.
        if factor is None or not 0 <= metric.value * factor < math.inf:
            continue
        if figure not in best or rank < best[figure][0]:
            best[figure] = (rank, metric.value * factor)
    figures: dict[str, Any] = {figure: value for figure, (_, value) in best.items()}
    figures["dram_bytes"] = _traffic(figures)
    for part in ("read_bytes", "written_bytes", "dram_bytes_per_s"):
        figures.pop(part, None)
    return Counted(symbol, grid, block, **figures)


def _traffic(figures: Mapping[str, float]) -> float | None:
    """Bytes through device memory: as counted, or both ways, or by rate and time."""
    if "dram_bytes" in figures:
        return figures["dram_bytes"]
    if "read_bytes" in figures and "written_bytes" in figures:
        return figures["read_bytes"] + figures["written_bytes"]
    if "dram_bytes_per_s" in figures and "time_s" in figures:
        return figures["dram_bytes_per_s"] * figures["time_s"]
    return None
