"""A costed step flattened into rows that the simulation can walk quickly.

A row is either a device task (one launch, or one node of a graph) or a wait of the host. Rows
carry the *static* host clock: the time at which the host would get there if it never waited. The
simulation then only has to track how long the host has waited, which keeps its loop tight.

Order on the device: a task starts after the task before it in its queue, when its copy engine is
free, and after what it waits for. Queues are those of `gpuscope.timeline.places`, waits those of
`gpuscope.timeline.dependencies`. How much tasks that run at the same time slow each other down is
a matter of `gpuscope.timeline.contention`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.cost.types import CostedOp, CostedProgram, Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import OPTIMIZER_ISSUED, Op
from gpuscope.timeline.dependencies import waits_by_row
from gpuscope.timeline.places import Place, Places
from gpuscope.timeline.types import Lane

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

Extra = tuple[int, int, tuple[int, ...], int]
"""(copy engine or -1, queue to join or -1, rows to wait for; negative: of the step before, first
row of the batch that this row is a later part of or -1)."""

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
        links: queues of communicators.
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
    links: frozenset[int]
    kernels: tuple[Kernel, ...]
    lanes: tuple[Lane, ...]


class _Builder:
    """Collects the columns of a `Schedule` while walking the operators once."""

    def __init__(self, costed: CostedProgram) -> None:
        self.costed = costed
        self.clock_s = 0.0
        self.places = Places(costed.ops, costed.program.groups)
        self.kernels: list[Kernel] = []
        self.rows: list[tuple[float, int, float, float, int, int, int, int, int]] = []
        self.place_of: list[Place | None] = []
        self.links: set[int] = set()
        self.launches: list[tuple[float, float, int, int]] = []
        self.calls: list[tuple[float, float, int, int, int, int]] = []
        self.op_rows: list[tuple[int, int, int]] = []
        self.entering = dict(costed.graph_call_s)
        self.whole = costed.program.settings.get("step_graph", False)

    def task(self, kernel: Kernel, number: int, op: int, gap_s: float, launched: int) -> None:
        """Add the row of a device task that belongs to the latest launch."""
        place = self.places(kernel, self.costed.ops[op].op, op)
        launch = len(self.launches) - 1
        self.rows.append(
            (
                self.clock_s,
                place.queue,
                kernel.duration_s,
                gap_s + kernel.gap_s,
                launched,
                number,
                op,
                place.lane,
                launch,
            )
        )
        self.place_of.append(place)
        if place.joined >= 0:
            self.links.add(place.queue)

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
                code = WAIT_ALL if whole else -2 - self.places.stream(op.stream)
                self.rows.append((self.clock_s, code, 0.0, 0.0, 0, -1, position, -1, -1))
                self.place_of.append(None)
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
        first = items[0][0].op
        if not self.whole and not first.graph:
            self.clock_s += self.entering.pop((first.region, first.phase), 0.0)
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
        """Add every operator, those of one graph together (see `graphs_of`)."""
        graph_of = graphs_of(self.costed)
        pending: list[tuple[CostedOp, int, int]] = []
        for position, item in enumerate(self.costed.ops):
            first_kernel = len(self.kernels)
            self.kernels.extend(item.kernels)
            graph = graph_of(item.op)
            if pending and graph != graph_of(pending[0][0].op):
                self.graph(pending)
                pending = []
            if graph is not None:
                pending.append((item, position, first_kernel))
            else:
                self.eager(item, position, first_kernel)
        self.graph(pending)

    def lanes(self) -> tuple[Lane, ...]:
        """Host lanes, then device lanes in the order they are first used."""
        host = [Lane(Text("host main"), "host", device=-1)]
        if any(call[-1] for call in self.calls):
            host.append(Lane(Text("host autograd"), "host", device=-1))
        device = [Lane(name, self.places.kinds[name]) for name in self.places.lanes.index]
        return (*host, *device)


def graphs_of(costed: CostedProgram) -> Callable[[Op], tuple[int, int, str] | None]:
    """Which CUDA graph brings an operator to the device; None for one that the host issues.

    The program's own graphs (`Op.graph`); under `graph`, each forward and backward pass of a
    compiled call, or of the whole step where no call is marked, between host waits and input
    copies, while the optimizer is issued call by call, unless it is compiled to graphs, too; or all
    of the step is one graph (`Program.settings["step_graph"]`).
    """
    whole = costed.program.settings.get("step_graph", False)
    issued = costed.program.settings.get(OPTIMIZER_ISSUED, False)
    marked = any(op.region for op in costed.program.ops)

    def graph_of(op: Op) -> tuple[int, int, str] | None:
        if op.graph:
            return op.graph, 0, ""
        if not costed.graph or op.sync:
            return None
        if whole:
            return 0, 0, ""
        if issued and op.phase == "optimizer":
            return None
        graphed = op.region > 0 if marked else op.phase in GRAPHED_PHASES
        return (0, op.region, op.phase) if graphed else None

    return graph_of


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
        extra=_extra(builder),
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
        queues=len(builder.places.queues.index),
        engines=len(builder.places.engines.index),
        links=frozenset(builder.links),
        kernels=tuple(builder.kernels),
        lanes=lanes,
    )


def _columns(rows: Sequence[tuple[float, ...]], width: int) -> Iterator[tuple[float, ...]]:
    """Transpose rows into `width` columns, also when there is no row."""
    return iter(zip(*rows, strict=True)) if rows else iter([()] * width)


def _extra(builder: _Builder) -> list[Extra | None]:
    """What each row has besides its queue to wait for."""
    firsts = _batches(builder.place_of)
    waits: dict[int, tuple[int, ...]] = {}
    if len(builder.places.queues.index) > 1:
        ops = [item.op for item in builder.costed.ops]
        queues = [row[1] for row in builder.rows]
        waits = waits_by_row(ops, builder.op_rows, queues, frozenset(builder.links), firsts)
        _add_library_waits(builder, waits)
    extra: list[Extra | None] = []
    for row, place in enumerate(builder.place_of):
        rows = waits.get(row, ())
        if place is not None and (place.engine >= 0 or place.joined >= 0 or rows):
            extra.append((place.engine, place.joined, rows, firsts.get(row, -1)))
        else:
            extra.append((-1, -1, rows, -1) if rows else None)
    return extra


def _add_library_waits(builder: _Builder, waits: dict[int, tuple[int, ...]]) -> None:
    """What an operator's kernels on streams of a library's own wait for (`Kernel.after`)."""
    for position, first, _ in builder.op_rows:
        for number, kernel in enumerate(builder.costed.ops[position].kernels):
            if kernel.after:
                rows = {first + place for place in kernel.after}
                waits[first + number] = tuple(sorted({*waits.get(first + number, ()), *rows}))


def _batches(places: Sequence[Place | None]) -> dict[int, int]:
    """Later rows of batches of sends and receives, with the first row of their batch."""
    first_of: dict[int, int] = {}
    found: dict[int, int] = {}
    for row, place in enumerate(places):
        if place is not None and place.batch >= 0:
            first = first_of.setdefault(place.batch, row)
            if first != row:
                found[row] = first
    return found
