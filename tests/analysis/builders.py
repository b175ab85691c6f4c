"""Small timelines by hand. Times in microseconds, so that answers can be added up in the head."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuscope.analysis import Finding, analyze
from gpuscope.cost.types import Kernel
from gpuscope.document.text import render
from gpuscope.hardware import device as catalogue_device
from gpuscope.hardware.device import Device
from gpuscope.program.types import Op, TensorSpec
from gpuscope.timeline.types import (
    DEVICE_KINDS,
    EVENT_KINDS,
    Counter,
    Events,
    Lane,
    LaneKind,
    Recorded,
    Step,
    Timeline,
)

US = 1_000
H200: Device = catalogue_device("nvidia-h200-sxm")
PEAK_BF16 = H200.peak_flops_per_s("bfloat16")
BANDWIDTH = H200.memory_bandwidth_bytes_per_s


def spec(*shape: int, dtype: str = "bfloat16", storage: int = -1) -> TensorSpec:
    """A contiguous device tensor."""
    stride, step = [], 1
    for size in reversed(shape):
        stride.append(step)
        step *= size
    return TensorSpec(tuple(shape), tuple(reversed(stride)), dtype, storage=storage)


def kernel(time_us: float, **fields: Any) -> Kernel:
    """A kernel that takes `time_us`; a bandwidth-bound pointwise one unless said otherwise."""
    fields.setdefault("name", "elementwise")
    fields.setdefault("kind", "pointwise")
    fields.setdefault("op", 0)
    fields.setdefault("limiter", "memory")
    time_s = time_us * 1e-6
    return Kernel(duration_s=time_s, low_s=time_s, high_s=time_s, **fields)


def matmul(time_us: float, of_peak: float = 0.7, **fields: Any) -> Kernel:
    """A compute-bound bf16 matrix product that reaches a share of the H200's dense peak."""
    flops = of_peak * PEAK_BF16 * time_us * 1e-6
    defaults: dict[str, Any] = {
        "name": "gemm_bf16",
        "kind": "matmul",
        "limiter": "tensor_core",
        "dtype": "bfloat16",
        "flops": flops,
        "compute_s": time_us * 1e-6,
        "least_bytes": 1e3,
        "read_bytes": 1e3,
        "waves": 1.0,
    }
    return kernel(time_us, **{**defaults, **fields})


def streaming(time_us: float, of_bandwidth: float = 0.9, **fields: Any) -> Kernel:
    """A bandwidth-bound kernel that reaches a share of the H200's bandwidth."""
    nbytes = of_bandwidth * BANDWIDTH * time_us * 1e-6
    defaults: dict[str, Any] = {
        "read_bytes": nbytes / 2,
        "written_bytes": nbytes / 2,
        "least_bytes": nbytes,
        "memory_s": time_us * 1e-6,
        "dtype": "bfloat16",
    }
    return kernel(time_us, **{**defaults, **fields})


def find(builder: TimelineBuilder, kind: str, **options: Any) -> Finding | None:
    """Analyse on an H200 and return the first finding of a kind, if there is one."""
    options.setdefault("device", H200)
    found = analyze(builder.build(), **options).findings
    for result in found:
        assert render(result.title, "zh") != result.title
        assert render(result.evidence, "zh") != result.evidence
        assert not result.hint or render(result.hint, "zh") != result.hint
    return next((result for result in found if result.kind == kind), None)


def with_sizes(timeline: Timeline, nbytes: dict[str, int]) -> Timeline:
    """Return the timeline with the bytes of its device events by name; launches by correlation."""
    rows = np.flatnonzero(timeline.events.kind < DEVICE_KINDS)
    none = np.full(len(rows), -1, np.int64)
    sizes = [nbytes.get(timeline.names[n], -1) for n in timeline.events.name[rows].tolist()]
    return replace(
        timeline,
        recorded=Recorded(
            event=rows,
            grid=np.full((len(rows), 3), -1),
            block=np.full((len(rows), 3), -1),
            registers=none,
            shared_bytes=none,
            occupancy=np.full(len(rows), np.nan),
            nbytes=np.array(sizes),
            stream=none,
            graph=none,
            launch=none,
            operator=none,
            collective=none,
            sequence=none,
        ),
    )


@dataclass
class TimelineBuilder:
    """Collects events; `build` sorts them into a `Timeline`."""

    origin: str = "predicted"
    lanes: list[Lane] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    rows: list[tuple[int, int, int, int, int, int, int, int]] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    correlations: int = 0

    def lane(self, name: str, kind: LaneKind, rank: int) -> int:
        wanted = Lane(name, kind, rank, -1 if kind == "host" else 0)
        if wanted not in self.lanes:
            self.lanes.append(wanted)
        return self.lanes.index(wanted)

    def name(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def op(self, name: str = "aten::mm", **fields: Any) -> int:
        """Add an operator; returns its index."""
        self.ops.append(Op(index=len(self.ops), name=name, **fields))
        return len(self.ops) - 1

    def _add(
        self,
        start_us: float,
        end_us: float,
        name: str,
        kind: str,
        lane: int,
        op: int = -1,
        kernel: int = -1,
        correlation: int = -1,
    ) -> None:
        start, end = round(start_us * US), round(end_us * US)
        row = (start, end - start, self.name(name), EVENT_KINDS.index(kind), lane, op, kernel)
        self.rows.append((*row, correlation))

    def work(
        self,
        start_us: float,
        end_us: float,
        *,
        kind: str = "kernel",
        name: str = "kernel",
        stream: str = "stream 7",
        launch_us: float | None = None,
        op: int = -1,
        cost: Kernel | None = None,
        rank: int = 0,
    ) -> None:
        """Add device work; `launch_us` adds its launch call of 1 us on the host."""
        lane_kind: LaneKind = "copy" if kind == "memcpy" else "stream"
        index = -1
        if cost is not None:
            self.kernels.append(cost)
            index, name = len(self.kernels) - 1, cost.name
        correlation = -1
        if launch_us is not None:
            correlation = self.correlations
            self.correlations += 1
            host = self.lane("host main", "host", rank)
            self._add(launch_us, launch_us + 1, "launch", "launch", host, op, -1, correlation)
        lane = self.lane(stream, lane_kind, rank)
        self._add(start_us, end_us, name, kind, lane, op, index, correlation)

    def host(
        self,
        start_us: float,
        end_us: float,
        *,
        kind: str = "operator",
        name: str = "aten::op",
        op: int = -1,
        rank: int = 0,
    ) -> None:
        """Add a host event."""
        self._add(start_us, end_us, name, kind, self.lane("host main", "host", rank), op)

    def copy(
        self,
        start_us: float,
        end_us: float,
        *,
        call_us: tuple[float, float],
        name: str = "copy",
        kind: str = "memcpy",
        rank: int = 0,
    ) -> None:
        """Add device work whose launch call lasts from `call_us[0]` to `call_us[1]`."""
        host = self.lane("host main", "host", rank)
        correlation = self.correlations
        self.correlations += 1
        self._add(*call_us, "cudaMemcpyAsync", "launch", host, -1, -1, correlation)
        lane = self.lane("stream 7", "stream", rank)
        self._add(start_us, end_us, name, kind, lane, -1, -1, correlation)

    def step(self, start_us: float, end_us: float, rank: int = 0) -> None:
        self.steps.append(Step(round(start_us * US), round(end_us * US), rank))

    def chain(self, costs: list[Kernel], gap_us: float = 0.0, **fields: Any) -> float:
        """Add kernels one after the other, launched long before; returns the end in us."""
        now = 0.0
        for cost in costs:
            end = now + cost.duration_s * 1e6
            self.work(now, end, cost=cost, launch_us=-1000.0 + now / 1e3, **fields)
            now = end + gap_us
        return now

    def build(self) -> Timeline:
        order = sorted(range(len(self.rows)), key=lambda i: (self.rows[i][0], self.rows[i][4]))
        columns = np.array([self.rows[i] for i in order], np.int64).reshape(-1, 8).T.copy()
        return Timeline(
            names=tuple(self.names),
            lanes=tuple(self.lanes),
            events=Events(*columns),
            counters=tuple(self.counters),
            steps=tuple(self.steps),
            kernels=tuple(self.kernels),
            ops=tuple(self.ops),
            origin="measured" if self.origin == "measured" else "predicted",
        )
