"""What a bench measures: points, the kernels in them, and the whole result."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Value = str | int | float | bool

COMPUTE, MEMORY, CACHE, LINK = "compute", "memory", "cache", "link"
"""What bounds a point: arithmetic, device memory, on-chip memory (no stated rate), a link."""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One kernel, copy or memset of a call, over the repetitions of the call.

    Attributes:
        name: as the profiler gives it.
        category: "kernel", "memcpy" or "memset".
        count: how many like it one call makes (calls of very many kernels are grouped).
        median_s, min_s, p90_s: of one kernel.
        gap_s: median idle time since the call's previous kernel; None for the first.
        grid, block: launch dimensions, "132x1x1"; "" if there are none.
        registers: a thread; None if not told.
        shared_bytes: a block; None if not told.
        occupancy_percent: the profiler's estimate; None if not told.
    """

    name: str
    category: str
    count: int
    median_s: float
    min_s: float
    p90_s: float
    gap_s: float | None = None
    grid: str = ""
    block: str = ""
    registers: int | None = None
    shared_bytes: int | None = None
    occupancy_percent: float | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement.

    Attributes:
        bench: name of the bench ("matmul").
        family: what was called ("mm", "bmm", "scaled_mm"); points of a family have like params.
        params: sizes and options.
        state: "hot" (same buffers back to back), "cold" (the cache full of dirty lines),
            "cold_clean" (full of clean ones), "steady" (under load for a while), "host" (wall
            time of the host), "loop", "queued", ...
        median_s, min_s, p90_s: of one call: device time of its kernels together, or wall time
            in state "host"; None where time is not what was measured.
        n: repetitions.
        flops: arithmetic of one call; None if not stated.
        bytes: least traffic of one call; None if not stated.
        bound: what bounds it (see `COMPUTE`); "" if unknown.
        bound_s: least time by the datasheet; None if unknown.
        kernels: what the call ran on the device.
        sm_clock_hz: right after the repetitions; None if not told.
        throttled: why the clock was held down then; () if it was not, None if not told.
        values: readings besides time, units in their names ("power_w", "bus_bytes_per_s").
        samples_s: the single times, where few and worth keeping.
    """

    bench: str
    family: str
    params: Mapping[str, Value]
    state: str
    median_s: float | None
    min_s: float | None = None
    p90_s: float | None = None
    n: int = 1
    flops: float | None = None
    bytes: float | None = None
    bound: str = ""
    bound_s: float | None = None
    kernels: tuple[KernelTime, ...] = ()
    sm_clock_hz: float | None = None
    throttled: tuple[str, ...] | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    samples_s: tuple[float, ...] = ()

    @property
    def fraction(self) -> float | None:
        """Share of the physical limit that was reached; None if no limit is known."""
        if self.bound_s is None or not self.median_s:
            return None
        return self.bound_s / self.median_s

    @property
    def flops_per_s(self) -> float | None:
        """Arithmetic rate; None if it is not known."""
        return self.flops / self.median_s if self.flops and self.median_s else None

    @property
    def bytes_per_s(self) -> float | None:
        """Rate of the least traffic; None if it is not known."""
        return self.bytes / self.median_s if self.bytes and self.median_s else None

    @property
    def kernel(self) -> str:
        """Name of the longest kernel; "" if there is none."""
        longest = max(self.kernels, key=lambda k: k.median_s * k.count, default=None)
        return longest.name if longest else ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What identifies the point among those of any machine."""
        return self.bench, self.family, params_key(self.params), self.state


def params_key(params: Mapping[str, Value]) -> str:
    """Return the params as one string, the same for equal params in any order."""
    return json.dumps(dict(params), sort_keys=True, separators=(",", ":"))


def p90(values: Sequence[float]) -> float:
    """Return the smallest value that nine in ten do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, -(-9 * len(ordered) // 10) - 1)]


def point_of(
    bench: str,
    family: str,
    params: Mapping[str, Value],
    state: str,
    seconds: Sequence[float],
    *,
    flops: float | None = None,
    bytes: float | None = None,
    bound: str = "",
    bound_s: float | None = None,
    values: Mapping[str, float] | None = None,
    keep_samples: bool = False,
) -> Point:
    """Return the point of measured times.

    Args:
        bench: see `Point`.
        family: see `Point`.
        params: see `Point`.
        state: see `Point`.
        seconds: one time a repetition; at least one.
        flops: see `Point`.
        bytes: see `Point`.
        bound: see `Point`.
        bound_s: see `Point`.
        values: see `Point`.
        keep_samples: keep the single times.

    Raises:
        ValueError: no times.
    """
    if not seconds:
        raise ValueError("No times.")
    return Point(
        bench,
        family,
        params,
        state,
        statistics.median(seconds),
        min(seconds),
        p90(seconds),
        len(seconds),
        flops,
        bytes,
        bound,
        bound_s,
        values=values or {},
        samples_s=tuple(seconds) if keep_samples else (),
    )


@dataclass(frozen=True, slots=True)
class Failure:
    """A point that could not be measured, why, and whether the device was lost with it."""

    bench: str
    family: str
    params: Mapping[str, Value]
    reason: str
    lost: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """Bench, family and params."""
        return self.bench, self.family, params_key(self.params)


@dataclass(frozen=True, slots=True)
class BenchRun:
    """How one bench went.

    Attributes:
        name: of the bench.
        seconds: it took.
        points: measured.
        left: points that its time did not suffice for.
        skipped: why it did not run at all; "" if it did.
    """

    name: str
    seconds: float
    points: int
    left: int = 0
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class BenchResult:
    """All that `gpuscope bench` found on one machine.

    Attributes:
        machine: facts by name: device, driver, versions, processor, host ("" has no place here:
            what is not known is left out).
        device_id: of the catalogue; "" if it is not in it.
        points: measured, in order.
        failures: what could not be measured.
        runs: how each bench went.
        warnings: what may have disturbed the figures, in English.
        quick: fewer points and repetitions.
        started: date and time in UTC, ISO 8601.
        seconds: how long it took in all.
        interrupted: the user stopped it; what is here was measured before.
    """

    machine: Mapping[str, str]
    device_id: str
    points: tuple[Point, ...]
    failures: tuple[Failure, ...] = ()
    runs: tuple[BenchRun, ...] = ()
    warnings: tuple[str, ...] = ()
    quick: bool = False
    started: str = ""
    seconds: float = 0.0
    interrupted: bool = False

    def of(self, bench: str, family: str | None = None) -> tuple[Point, ...]:
        """Return the points of a bench, or of one family of it."""
        return tuple(p for p in self.points if p.bench == bench and family in (None, p.family))
