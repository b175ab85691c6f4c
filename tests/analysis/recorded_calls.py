"""Small recordings by hand: operators with shapes, kernels with launch dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from builders import TimelineBuilder

from gpuscope.program.types import TensorSpec
from gpuscope.timeline.types import DEVICE_KINDS, Recorded, RecordedDevice, Source, Timeline

TRACES = Path(__file__).resolve().parents[1] / "data" / "traces"
H200_BOARD = RecordedDevice(0, "NVIDIA H200", 150109880320, (9, 0), 132, 32, 2048)


@dataclass(frozen=True)
class Shape:
    """Launch dimensions of one kernel."""

    grid: int = 132
    block: int = 256
    registers: int = 32
    shared: int = 0
    nbytes: int = -1


@dataclass
class Recording:
    """Calls of operators one after the other, each with the kernels that it launches."""

    board: RecordedDevice = H200_BOARD
    builder: TimelineBuilder = field(default_factory=lambda: TimelineBuilder(origin="measured"))
    shapes: dict[int, Shape] = field(default_factory=dict)
    now_us: float = 0.0

    def op(self, name: str, *inputs: TensorSpec, values: tuple[str, ...] = ()) -> int:
        args = {"concrete_inputs": values} if values else {}
        return self.builder.op(name, inputs=inputs, args=args)

    def call(self, op: int, *kernels: tuple[str, float, Shape], kind: str = "kernel") -> None:
        """One call of an operator; the device runs its kernels at once."""
        host_us = self.now_us - 5000.0
        name = self.builder.ops[op].name if op >= 0 else "outside"
        if op >= 0:
            self.builder.host(host_us, host_us + 1.0, name=name, op=op)
        for symbol, length, shape in kernels:
            self.shapes[round(self.now_us * 1000)] = shape
            sort = "memset" if symbol.startswith("Memset") else kind
            self.builder.work(self.now_us, self.now_us + length, name=symbol, kind=sort, op=op)
            self.now_us += length
        self.now_us += 2.0

    def build(self) -> Timeline:
        timeline = self.builder.build()
        events = timeline.events
        rows = np.flatnonzero(events.kind < DEVICE_KINDS)
        hosts = {}
        for row in np.flatnonzero(events.kind >= DEVICE_KINDS).tolist():
            hosts.setdefault(int(events.op[row]), []).append(row)
        shapes = [self.shapes[int(events.start_ns[row])] for row in rows]
        operator = [self._caller(timeline, int(row), hosts) for row in rows]
        none = np.full(len(rows), -1, np.int64)
        one = np.ones(len(rows), np.int64)
        recorded = Recorded(
            event=rows,
            grid=np.stack(([s.grid for s in shapes], one, one), axis=1),
            block=np.stack(([s.block for s in shapes], one, one), axis=1),
            registers=np.array([s.registers for s in shapes]),
            shared_bytes=np.array([s.shared for s in shapes]),
            occupancy=np.full(len(rows), np.nan),
            nbytes=np.array([s.nbytes for s in shapes]),
            stream=none,
            graph=none,
            launch=none,
            operator=np.array(operator, np.int64),
            collective=none,
            sequence=none,
        )
        source = Source(0, "by hand", devices=(self.board,), with_shapes=True)
        return replace(timeline, recorded=recorded, sources=(source,))

    @staticmethod
    def _caller(timeline: Timeline, row: int, hosts: dict[int, list[int]]) -> int:
        """The last call of the event's operator that began before it."""
        op, start = int(timeline.events.op[row]), timeline.events.start_ns
        calls = [h for h in hosts.get(op, []) if op >= 0]
        calls = [h for h in calls if start[h] + 5_000_000 <= start[row]]
        return calls[-1] if calls else -1
