"""Measure true kernel durations of single PyTorch calls through CUPTI (``torch.profiler``).

Each call is wrapped in a named range; a kernel belongs to the range inside which its launch call
was made (joined through the correlation id), so a flush kernel launched between two calls is never
counted.  The cache states: ``hot`` (the same buffers back to back), ``cold`` (a 256 MB buffer,
several times the last-level cache, is written before every call, so that dirty lines must be
written back too) and, for some points, ``cold_clean`` (that buffer is only read).

Power-hungry families rest between points, so that the power limit does not lower the clock in the
middle of a measurement; the SM clock read at the end of each state is saved with it.
"""

from __future__ import annotations

import bisect
import csv
import gzip
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

Value = str | int | float | bool
FLUSH_BYTES = 256 * 1024 * 1024
"""Written before each cold call; larger than any current GPU's last-level cache (H200: 50 MB)."""
CHUNK_POINTS = 120
"""Points per profiler session: bounds the trace file and lets results be saved as they come."""
REST_ABOVE_S = 0.003
REST_MOST_S = 0.25
"""Rest only after this much work in one state, and never longer than this."""
GROUP_ABOVE_KERNELS = 24
"""A call with more kernels than this is saved as one row per distinct kernel, with its count."""
COLUMNS = (
    "bench", "params", "state", "k", "count", "category", "kernel", "grid", "block", "registers",
    "shared_bytes", "occupancy_pct", "median_us", "min_us", "p90_us", "n", "gap_us", "sm_mhz",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """One thing to measure: ``make`` allocates the inputs and returns the call to repeat."""

    bench: str
    params: Mapping[str, Value]
    make: Callable[[str], Callable[[], object]]
    states: tuple[str, ...] = ("hot", "cold")
    reps: int = 8


@dataclass(slots=True)
class KernelEvent:
    """One device event of a trace: a kernel, a copy or a memset. Times in microseconds."""

    name: str
    category: str
    start_us: float
    duration_us: float
    args: Mapping[str, Any]


@dataclass(slots=True)
class Family:
    """A named list of points that is saved to one file.

    After each state the device rests for ``rest`` times as long as it worked.
    """

    name: str
    points: Callable[[bool], Iterator[Point]]
    chunk_points: int = CHUNK_POINTS
    rest: float = 0.0
    errors: list[tuple[str, str, str]] = field(default_factory=list)


class ClockReader:
    """Reads the SM clock in MHz through NVML; None where NVML is not available."""

    def __init__(self) -> None:
        try:
            import pynvml

            pynvml.nvmlInit()
            self._nvml: Any = pynvml
            self._handle: Any = pynvml.nvmlDeviceGetHandleByIndex(0)
        except Exception:
            self._nvml = None

    def sm_mhz(self) -> int | None:
        """The SM clock now, in MHz."""
        if self._nvml is None:
            return None
        return int(self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM))


def events_by_range(trace: Mapping[str, Any], prefix: str = "@") -> dict[str, list[KernelEvent]]:
    """Join device events to the named range in whose time their launch call was made.

    ``trace`` is a Kineto Chrome trace; ranges are ``user_annotation`` events whose name starts
    with ``prefix`` and must not overlap.  Device events keep their launch order.
    """
    launches: dict[int, float] = {}
    ranges: list[tuple[float, float, str]] = []
    device: list[tuple[int, KernelEvent]] = []
    for event in trace["traceEvents"]:
        if event.get("ph") != "X":
            continue
        category, args = event.get("cat", ""), event.get("args", {})
        if category in ("cuda_runtime", "cuda_driver"):
            start = float(event["ts"])
            correlation = int(args.get("correlation", -1))
            launches[correlation] = min(start, launches.get(correlation, start))
        elif category == "user_annotation" and event["name"].startswith(prefix):
            ranges.append((float(event["ts"]), float(event["ts"]) + event["dur"], event["name"]))
        elif category in ("kernel", "gpu_memcpy", "gpu_memset"):
            kind = category.removeprefix("gpu_")
            made = KernelEvent(event["name"], kind, float(event["ts"]), float(event["dur"]), args)
            device.append((int(args.get("correlation", -1)), made))
    ranges.sort()
    starts = [start for start, _, _ in ranges]
    found: dict[str, list[tuple[float, KernelEvent]]] = {name: [] for _, _, name in ranges}
    for correlation, made in device:
        launched = launches.get(correlation)
        if launched is None:
            continue
        at = bisect.bisect_right(starts, launched) - 1
        if at >= 0 and launched <= ranges[at][1]:
            found[ranges[at][2]].append((launched, made))
    return {n: [e for _, e in sorted(v, key=lambda pair: pair[0])] for n, v in found.items()}


def _quantile(values: Sequence[float], fraction: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]


def _join(value: object) -> str:
    return "x".join(str(v) for v in value) if isinstance(value, list | tuple) else ""


def _row(samples: list[KernelEvent], gaps: list[float], k: int, count: int) -> list[object]:
    """Columns from ``k`` to ``gap_us`` for one kernel of a call, over its repetitions."""
    first = samples[0]
    times = [s.duration_us for s in samples]
    shared = first.args.get("shared memory", first.args.get("bytes", ""))
    return [
        k, count, first.category, first.name, _join(first.args.get("grid")),
        _join(first.args.get("block")), first.args.get("registers per thread", ""), shared,
        first.args.get("est. achieved occupancy %", ""), round(statistics.median(times), 3),
        round(min(times), 3), round(_quantile(times, 0.9), 3), len(times),
        round(statistics.median(gaps), 3) if gaps else "",
    ]  # fmt: skip


def summarise(reps: Sequence[Sequence[KernelEvent]]) -> list[list[object]]:
    """Rows (``k`` .. ``gap_us``) of one point and state, from its repetitions' device events.

    Repetitions whose kernel names differ from the most common sequence are dropped.
    """
    signatures = Counter(tuple(e.name for e in rep) for rep in reps)
    signature, _ = signatures.most_common(1)[0]
    kept = [list(rep) for rep in reps if tuple(e.name for e in rep) == signature]
    if not signature:
        return []
    if len(signature) > GROUP_ABOVE_KERNELS:
        groups: dict[tuple[str, str, str], list[KernelEvent]] = {}
        for rep in kept:
            for e in rep:
                key = (e.name, _join(e.args.get("grid")), _join(e.args.get("block")))
                groups.setdefault(key, []).append(e)
        return [_row(v, [], i, len(v) // len(kept)) for i, v in enumerate(groups.values())]
    rows = []
    for k in range(len(signature)):
        gaps = []
        if k:
            for rep in kept:
                before = rep[k - 1]
                gaps.append(rep[k].start_us - before.start_us - before.duration_us)
        rows.append(_row([rep[k] for rep in kept], gaps, k, 1))
    return rows


class Recorder:
    """Runs the points of a family in profiler sessions and appends rows to its file."""

    def __init__(self, out: Path, deadline_s: float) -> None:
        self.out = out
        self.deadline_s = deadline_s
        self.clock = ClockReader()
        self.flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")

    def run(self, family: Family, quick: bool) -> tuple[int, int]:
        """Measure the family; returns (points measured, points left for lack of time)."""
        path = self.out / f"{family.name}.csv.gz"
        done = left = 0
        with gzip.open(path, "wt", newline="", compresslevel=6) as stream:
            writer = csv.writer(stream)
            writer.writerow(COLUMNS)
            for chunk in _chunks(_distinct(family.points(quick)), family.chunk_points):
                if time.time() > self.deadline_s:
                    left += len(chunk)
                    continue
                measured = self._run_chunk(chunk, family)
                done += len(measured)
                left += len(chunk) - len(measured)
                for point, state, sm_mhz, rows in (r for m in measured.values() for r in m):
                    params = json.dumps(dict(point.params), separators=(",", ":"))
                    for row in rows:
                        writer.writerow([point.bench, params, state, *row, sm_mhz])
                stream.flush()
        if family.errors:
            with gzip.open(self.out / f"{family.name}.errors.csv.gz", "wt", newline="") as stream:
                csv.writer(stream).writerows(family.errors)
        return done, left

    def _run_chunk(
        self, chunk: Sequence[Point], family: Family
    ) -> dict[int, list[tuple[Point, str, int | None, list[list[object]]]]]:
        from torch.profiler import ProfilerActivity, profile

        clocks: dict[tuple[int, str], int | None] = {}
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as session:
            for index, point in enumerate(chunk):
                if time.time() > self.deadline_s:
                    break
                try:
                    self._run_point(index, point, clocks, family.rest)
                except Exception as error:
                    text = f"{type(error).__name__}: {error}"[:300]
                    family.errors.append((point.bench, json.dumps(dict(point.params)), text))
                    if "CUDA error" in text:
                        raise
                    torch.cuda.empty_cache()
            torch.cuda.synchronize()
        trace = _export(session)
        ranges = events_by_range(trace)
        out: dict[int, list[tuple[Point, str, int | None, list[list[object]]]]] = {}
        for (index, state), sm_mhz in clocks.items():
            prefix = f"@{index}:{state}:"
            reps = [v for name, v in ranges.items() if name.startswith(prefix)]
            if reps:
                row = (chunk[index], state, sm_mhz, summarise(reps))
                out.setdefault(index, []).append(row)
        return out

    def _run_point(
        self, index: int, point: Point, clocks: dict[tuple[int, str], int | None], rest: float
    ) -> None:
        call = point.make("cuda")
        call()
        torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        torch.cuda.synchronize()
        once_s = time.perf_counter() - began
        reps = max(2, point.reps // 2) if once_s > 0.008 else point.reps
        for state in point.states:
            began = time.perf_counter()
            for rep in range(reps + (state == "hot")):
                if state == "cold":
                    self.flush.fill_(1.0)
                elif state == "cold_clean":
                    self.flush.sum()
                with torch.profiler.record_function(f"@{index}:{state}:{rep}"):
                    call()
            clocks[index, state] = self.clock.sm_mhz()
            torch.cuda.synchronize()
            worked_s = time.perf_counter() - began
            if rest and worked_s > REST_ABOVE_S:
                time.sleep(min(REST_MOST_S, rest * worked_s))
        del call
        if torch.cuda.memory_reserved() > 60e9:
            torch.cuda.empty_cache()


def _export(session: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        session.export_chrome_trace(path)
        with open(path, "rb") as stream:
            loaded: dict[str, Any] = json.loads(stream.read())
    return loaded


def _distinct(points: Iterable[Point]) -> Iterator[Point]:
    """Each point once, even where two lists of shapes meet."""
    seen: set[tuple[str, str]] = set()
    for point in points:
        key = (point.bench, json.dumps(dict(point.params), sort_keys=True))
        if key not in seen:
            seen.add(key)
            yield point


def _chunks(points: Iterable[Point], size: int) -> Iterator[list[Point]]:
    chunk: list[Point] = []
    for point in points:
        chunk.append(point)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def randn(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cuda") -> torch.Tensor:
    """Normally distributed random data: power and clocks depend on the data's bits."""
    if dtype.is_floating_point and dtype.itemsize >= 2:
        return torch.randn(shape, dtype=dtype, device=device)
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=torch.bfloat16, device=device).to(dtype)
    return torch.randint(-100, 100, shape, dtype=dtype, device=device)


DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
"""Short names used in the ``dtype`` parameter of every bench."""
