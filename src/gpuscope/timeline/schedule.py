"""A costed step flattened into rows that the simulation can walk quickly.

A row is either a device task (one launch, or one node of a graph) or a wait of the host. Rows
carry the *static* host clock: the time at which the host would get there if it never waited. The
simulation then only has to track how long the host has waited, which keeps its loop tight.

Order on the device:

- a task starts after the task before it in its queue (a CUDA stream, or the link's own queue);
- a copy also needs its copy engine, which serves one copy at a time, whatever the stream;
- a collective runs in the link's queue, as `ProcessGroupNCCL` runs it on a stream of its own
  (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, `syncStream`), but first waits for the stream
  that it was issued from;
- an operator that reads memory last written in another queue waits for that writer: the program
  is taken to be correctly synchronised (events, `wait_stream`, `wait_tensor`). Memory read before
  it is written in the step was written by the step before.

Tasks that run at the same time on different queues do not slow each other down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuscope.cost.types import CostedOp, CostedProgram, Kernel
from gpuscope.timeline.types import Lane, LaneKind

GRAPH_LAUNCH_S = 2.5e-6
"""Host time of one graph launch: NVIDIA technical blog, "Constant Time Launch for Straight-Line
CUDA Graphs and Other Performance Enhancements" (2024), CUDA 12.6: 2.5 us plus about 1 ns a node."""

GRAPH_NODE_S = 1e-9
"""Host time that each node of a graph adds to its launch; same source."""

GRAPH_GAP_SAVING_S = 1e-6
"""How much shorter the gap between two nodes of a graph is than between two launches queued on a
stream; the gap never falls below zero."""

GRAPHED_PHASES = ("forward", "backward")
"""What `torch.compile(mode="reduce-overhead")` and `make_graphed_callables` put into graphs: the
forward and the backward pass, not the optimizer."""

WAIT_ALL = -1
"""`Schedule.queue` of a wait for the whole device; a wait for queue q is stored as -2 - q."""

DEVICE_WIDE_SYNCS = frozenset({"synchronize", "device_synchronize", "cuda_synchronize"})
"""Values of `HostCost.sync` that wait for every stream; any other waits for the op's stream."""

_COPY_LANES = {"copy_h2d": "copy H2D", "copy_d2h": "copy D2H"}

Extra = tuple[int, int, tuple[int, ...]]
"""(copy engine or -1, queue to join or -1, rows to wait for; negative: of the step before)."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Schedule:
    """One step as rows in the order the host issues them, all columns of equal length.

    Attributes:
        host_s: static host clock at the end of the row's launch call (waits: when they begin).
        queue: device queue of a task, or a wait code (see `WAIT_ALL`).
        duration_s: device time of a task, 0 for waits.
        gap_s: least gap after the task before it in the queue.
        launched: 1 where the row is a launch of its own, which takes a place in the launch queue.
        extra: `Extra` where a row has more than its queue to wait for, else None.
        kernel: index into `kernels`, -1 for waits.
        op: index of the operator, for every row.
        lane: index into `lanes` for the row's device event, -1 for waits.
        launch: index into the launch columns of the launch that brings the task, -1 for waits.
        launch_host_s, launch_cost_s, launch_row, launch_op: one entry per launch call: static
            clock at its end, its own host time, its first row, its operator.
        op_begin_s, op_end_s, op_first_row, op_end_row, op_index, op_lane: one entry per operator
            call that the host makes: static clock at begin and end, rows [first, end), operator
            index, host lane. A whole graph launch is one entry with operator index -1.
        host_step_s: static host time of the step.
        queues: number of device queues.
        engines: number of copy engines in use.
        kernels: all kernels, in order; repeated operators share theirs.
        lanes: host lanes first, then device lanes.
    """

    host_s: Floats
    queue: list[int]
    duration_s: Floats
    gap_s: Floats
    launched: list[int]
    extra: list[Extra | None]
    kernel: Ints
    op: Ints
    lane: Ints
    launch: Ints
    launch_host_s: Floats
    launch_cost_s: Floats
    launch_row: Ints
    launch_op: Ints
    op_begin_s: Floats
    op_end_s: Floats
    op_first_row: Ints
    op_end_row: Ints
    op_index: Ints
    op_lane: Ints
    host_step_s: float
    queues: int
    engines: int
    kernels: tuple[Kernel, ...]
    lanes: tuple[Lane, ...]


@dataclass(slots=True)
class _Names:
    """Numbers things in the order they are first seen."""

    index: dict[str, int] = field(default_factory=dict)

    def __call__(self, name: str) -> int:
        return self.index.setdefault(name, len(self.index))


class _Builder:
    """Collects the columns of a `Schedule` while walking the operators once."""

    def __init__(self, costed: CostedProgram) -> None:
        self.costed = costed
        self.clock_s = 0.0
        self.queues, self.engines, self.device_lanes = _Names(), _Names(), _Names()
        self.lane_kinds: dict[str, LaneKind] = {}
        self.places: dict[tuple[str, int], tuple[int, int, tuple[int, int] | None]] = {}
        self.kernels: list[Kernel] = []
        self.rows: list[tuple[float, int, float, float, int, int, int, int, int]] = []
        self.extra: list[tuple[int, int] | None] = []
        self.launches: list[tuple[float, float, int, int]] = []
        self.calls: list[tuple[float, float, int, int, int, int]] = []
        self.op_rows: list[tuple[int, int, int]] = []

    def place(self, kernel: Kernel) -> tuple[int, int, tuple[int, int] | None]:
        """Queue, device lane and extra constraints (engine, joined queue) of a kernel."""
        key = (kernel.lane, kernel.stream)
        if key not in self.places:
            self.places[key] = self.new_place(kernel)
        return self.places[key]

    def new_place(self, kernel: Kernel) -> tuple[int, int, tuple[int, int] | None]:
        """As `place`, for the first kernel of its kind of lane and stream."""
        stream = f"stream {kernel.stream}"
        if kernel.lane == "link":
            self.lane_kinds["link"] = "link"
            joined = self.queues(stream)
            return self.queues("link"), self.device_lanes("link"), (-1, joined)
        copy = _COPY_LANES.get(kernel.lane)
        if copy is not None:
            self.lane_kinds[copy] = "copy"
            return self.queues(stream), self.device_lanes(copy), (self.engines(copy), -1)
        self.lane_kinds[stream] = "stream"
        return self.queues(stream), self.device_lanes(stream), None

    def task(self, kernel: Kernel, number: int, op: int, gap_s: float, launched: int) -> None:
        """Add the row of a device task that belongs to the latest launch."""
        queue, lane, extra = self.place(kernel)
        launch = len(self.launches) - 1
        self.rows.append(
            (self.clock_s, queue, kernel.duration_s, gap_s, launched, number, op, lane, launch)
        )
        self.extra.append(extra)

    def eager(self, item: CostedOp, position: int, first_kernel: int) -> None:
        """Add an operator that the host issues launch by launch, `repeat` times."""
        host, op = item.host, item.op
        lane = 1 if op.phase == "backward" else 0
        for _ in range(op.repeat):
            begin_s, first_row = self.clock_s, len(self.rows)
            self.clock_s += host.before_s
            for number, kernel in enumerate(item.kernels, first_kernel):
                self.clock_s += host.per_launch_s
                self.launches.append((self.clock_s, host.per_launch_s, len(self.rows), position))
                self.task(kernel, number, position, self.costed.kernel_gap_s, 1)
            if host.sync:
                whole = host.sync in DEVICE_WIDE_SYNCS
                code = WAIT_ALL if whole else -2 - self.queues(f"stream {op.stream}")
                self.rows.append((self.clock_s, code, 0.0, 0.0, 0, -1, position, -1, -1))
                self.extra.append(None)
            self.clock_s += host.after_s
            end_row = len(self.rows)
            self.calls.append((begin_s, self.clock_s, first_row, end_row, position, lane))
            self.op_rows.append((position, first_row, end_row))

    def graph(self, items: list[tuple[CostedOp, int, int]]) -> None:
        """Add a run of operators that one graph launch brings to the device."""
        nodes = sum(len(item.kernels) * item.op.repeat for item, _, _ in items)
        if not nodes:
            return
        gap_s = max(0.0, self.costed.kernel_gap_s - GRAPH_GAP_SAVING_S)
        begin_s, first_row = self.clock_s, len(self.rows)
        self.clock_s += self.costed.graph_call_s.get(items[0][0].op.phase, 0.0)
        cost_s = GRAPH_LAUNCH_S + GRAPH_NODE_S * nodes
        self.clock_s += cost_s
        self.launches.append((self.clock_s, cost_s, first_row, -1))
        for item, position, first_kernel in items:
            for _ in range(item.op.repeat):
                start_row = len(self.rows)
                for number, kernel in enumerate(item.kernels, first_kernel):
                    self.task(kernel, number, position, gap_s, int(len(self.rows) == first_row))
                self.op_rows.append((position, start_row, len(self.rows)))
        self.calls.append((begin_s, self.clock_s, first_row, len(self.rows), -1, 0))

    def walk(self) -> None:
        """Add every operator; under `graph`, each forward and backward pass between host waits
        and input copies is one graph, and the optimizer is issued call by call."""
        pending: list[tuple[CostedOp, int, int]] = []
        for position, item in enumerate(self.costed.ops):
            first_kernel = len(self.kernels)
            self.kernels.extend(item.kernels)
            graphed = self.costed.graph and not item.host.sync and item.op.phase in GRAPHED_PHASES
            if pending and (not graphed or pending[0][0].op.phase != item.op.phase):
                self.graph(pending)
                pending = []
            if graphed:
                pending.append((item, position, first_kernel))
            else:
                self.eager(item, position, first_kernel)
        self.graph(pending)

    def lanes(self) -> tuple[Lane, ...]:
        """Host lanes, then device lanes in the order they are first used."""
        host = [Lane("host main", "host", device=-1)]
        if any(call[-1] for call in self.calls):
            host.append(Lane("host autograd", "host", device=-1))
        device = [Lane(name, self.lane_kinds[name]) for name in self.device_lanes.index]
        return (*host, *device)


def build_schedule(costed: CostedProgram) -> Schedule:
    """Flatten a costed program into rows; linear in the number of kernels."""
    builder = _Builder(costed)
    builder.walk()
    host_s, queue, duration_s, gap_s, launched, kernel, op, lane, launch = _columns(builder.rows, 9)
    launch_host_s, launch_cost_s, launch_row, launch_op = _columns(builder.launches, 4)
    begin_s, end_s, first_row, end_row, op_index, op_lane = _columns(builder.calls, 6)
    lanes, device_lane = builder.lanes(), np.array(lane, np.int64)
    host_lanes = sum(entry.kind == "host" for entry in lanes)
    return Schedule(
        host_s=np.array(host_s, np.float64),
        queue=[int(code) for code in queue],
        duration_s=np.array(duration_s, np.float64),
        gap_s=np.array(gap_s, np.float64),
        launched=[int(flag) for flag in launched],
        extra=_with_dependencies(builder),
        kernel=np.array(kernel, np.int64),
        op=np.array(op, np.int64),
        lane=np.where(device_lane >= 0, device_lane + host_lanes, -1),
        launch=np.array(launch, np.int64),
        launch_host_s=np.array(launch_host_s, np.float64),
        launch_cost_s=np.array(launch_cost_s, np.float64),
        launch_row=np.array(launch_row, np.int64),
        launch_op=np.array(launch_op, np.int64),
        op_begin_s=np.array(begin_s, np.float64),
        op_end_s=np.array(end_s, np.float64),
        op_first_row=np.array(first_row, np.int64),
        op_end_row=np.array(end_row, np.int64),
        op_index=np.array(op_index, np.int64),
        op_lane=np.array(op_lane, np.int64),
        host_step_s=builder.clock_s,
        queues=len(builder.queues.index),
        engines=len(builder.engines.index),
        kernels=tuple(builder.kernels),
        lanes=lanes,
    )


def _columns(rows: Sequence[tuple[float, ...]], width: int) -> Iterator[tuple[float, ...]]:
    """Transpose rows into `width` columns, also when there is no row."""
    return iter(zip(*rows, strict=True)) if rows else iter([()] * width)


def _with_dependencies(builder: _Builder) -> list[Extra | None]:
    """Complete the extra constraints with the writers that each row must wait for."""
    waits = _cross_queue_writers(builder) if len(builder.queues.index) > 1 else {}
    extra: list[Extra | None] = []
    for row, pair in enumerate(builder.extra):
        writers = waits.get(row, ())
        engine, joined = pair if pair is not None else (-1, -1)
        extra.append((engine, joined, writers) if pair is not None or writers else None)
    return extra


def _cross_queue_writers(builder: _Builder) -> dict[int, tuple[int, ...]]:
    """Rows to wait for, by row: last writers in other queues of the memory an operator reads.

    The operators are walked twice: the first pass only learns who writes last in a step, so that
    in the second a read before any write finds the writer of the step before (row - rows a step,
    a negative number).
    """
    total = len(builder.rows)
    writer: dict[int, int] = {}
    waits: dict[int, tuple[int, ...]] = {}
    for second in (False, True):
        carried: dict[int, set[int]] = {}
        for position, first, end in builder.op_rows:
            op = builder.costed.ops[position].op
            if op.view:
                continue
            tasks = [row for row in range(first, end) if builder.rows[row][1] >= 0]
            if second:
                sources = {writer[t.storage] for t in op.inputs if t.storage in writer}
                _add_waits(builder, op.stream, tasks, sources, carried, waits)
            if tasks:
                writer.update((t.storage, tasks[-1]) for t in op.outputs if t.storage >= 0)
        if not second:
            writer = {storage: row - total for storage, row in writer.items()}
    return waits


def _add_waits(
    builder: _Builder,
    stream: int,
    tasks: list[int],
    sources: set[int],
    carried: dict[int, set[int]],
    waits: dict[int, tuple[int, ...]],
) -> None:
    """Make the first task of an operator wait for `sources` that lie in other queues.

    An operator without tasks (`wait_tensor`) hands its sources to the next one on its stream.
    """
    if not tasks:
        if sources:
            carried.setdefault(stream, set()).update(sources)
        return
    sources = sources | carried.pop(stream, set())
    queue = builder.rows[tasks[0]][1]
    foreign = tuple(sorted(row for row in sources if builder.rows[row][1] != queue))
    if foreign:
        waits[tasks[0]] = foreign
