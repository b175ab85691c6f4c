"""Recorded kernels joined with the cost models: work, traffic and limit of each device event.

Each device event belongs to the nearest operator around its launch that a cost model can cost:
the innermost one, or an enclosing one where the innermost has no model or no shapes. The model's
kernels are then matched with the events of that call (see `gpuscope.analysis.align`). What no
model covers still gets its family from the symbol, with work and traffic unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuscope.analysis.align import Launch, align, bare
from gpuscope.analysis.columns import group_rows
from gpuscope.analysis.launch_shape import launch_shape
from gpuscope.analysis.roofs import Roofs
from gpuscope.analysis.symbols import symbol_dtype
from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.types import Kernel
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Calibration, calibration_for
from gpuscope.hardware.device import Device
from gpuscope.program.signatures import complete, forward_sized, known, output_sizes
from gpuscope.program.types import Op
from gpuscope.timeline.nesting import parent_rows
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Ints, Recorded, Timeline

_OPERATOR = EVENT_KINDS.index("operator")
_COMMUNICATION = EVENT_KINDS.index("communication")

_TF32 = re.compile(r"tf32|tensorop_s1688|s1688(?:gemm|fprop|dgrad|wgrad)|nvjet_sm\d+_sst?_", re.I)
"""Symbols of float32 products on the tensor cores."""

_HOT_SHARE = 0.5
"""Operands of a call that together take less than this share of the L2 are taken as still there:
what an operator reads has mostly just been written, and a recording does not tell memory apart."""

_ELEMENTWISE = frozenset({"gpuscope.cost.pointwise.model", "gpuscope.cost.pointwise.random"})
"""Modules whose operators work element by element, so that their output follows by broadcasting."""


def modelled(
    timeline: Timeline, device: Device | None, calibration: Calibration | None = None
) -> Timeline:
    """Give each recorded device event a `Kernel` in `Timeline.kernels`.

    Args:
        timeline: a recording; a prediction is returned as it is.
        device: what it was recorded on; without it kernels get only their families.
        calibration: measured constants; the catalogue's own for this device by default.

    Returns:
        The timeline with `kernels` filled and `Events.kernel` set for all device events. Where a
        model applies, a kernel's `duration_s` is what the model expects, `low_s` and `high_s` its
        interval; else it is the mean recorded duration, the limiter "unknown" and the origin
        "measured". Names are shortened symbols, grid, block and waves as recorded.
    """
    recorded = timeline.recorded
    if recorded is None or not len(recorded) or timeline.kernels:
        return timeline
    coster = _Coster(timeline, device, calibration)
    call = _calls(timeline, recorded, coster)
    sorts = _Sorts.of(timeline, recorded, device)
    kernels: list[Kernel] = []
    column = np.full(len(recorded), -1, np.int64)
    for group in _groups(timeline, call, sorts):
        launches = [
            replace(sorts.launches[code], time_s=time)
            for code, time in zip(group.codes, group.times_s, strict=True)
        ]
        made = coster.kernels(group.op, launches)
        if made is None:
            continue
        column[group.rows] = len(kernels) + np.arange(len(made))
        kernels += made
    left = np.flatnonzero(column < 0)
    codes, inverse = np.unique(sorts.code[left], return_inverse=True)
    column[left] = len(kernels) + inverse.reshape(-1)
    kernels += [bare(sorts.launches[code]) for code in codes.tolist()]
    of_event = timeline.events.kernel.copy()
    of_event[recorded.event] = column
    return replace(
        timeline, kernels=tuple(kernels), events=replace(timeline.events, kernel=of_event)
    )


class _Coster:
    """Costs the distinct operators of a recording, each at most once a set of symbols."""

    def __init__(
        self, timeline: Timeline, device: Device | None, calibration: Calibration | None
    ) -> None:
        self._ops = [op if isinstance(op, Op) else Op(i, "") for i, op in enumerate(timeline.ops)]
        self._values = any("concrete_inputs" in op.args for op in self._ops)
        self.device = device
        self._roofs = Roofs(device)
        self._constants = None
        if device is not None:
            self._constants = Constants(calibration or calibration_for(device))
        self._sizes = output_sizes(self._ops)
        self._complete: dict[tuple[int, str], Op | None] = {}
        self._costed: dict[tuple[int, bool, str], tuple[Kernel, ...]] = {}

    def usable(self, op: int) -> bool:
        """Whether the operator has shapes, a rule and a model that finds work in it."""
        return bool(self._cost(op, False, "float32"))

    def kernels(self, op: int, launches: Sequence[Launch]) -> tuple[Kernel, ...] | None:
        """The kernels of one call, one a launch; None if the model is not of these launches."""
        if all(launch.sort == "memcpy" for launch in launches):
            return None
        tf32 = any(_TF32.search(launch.symbol) for launch in launches)
        longest = max(launches, key=lambda launch: launch.time_s)
        model = self._cost(op, tf32, symbol_dtype(longest.symbol))
        return align(model, launches, self._roofs.peak_flops_per_s)

    def _completed(self, index: int, dtype: str) -> Op | None:
        op = self._ops[index]
        if all(t.dtype != "unknown" for t in op.inputs):
            dtype = ""
        key = (index, dtype)
        if key not in self._complete:
            model = model_for(op.name)
            plain = model is not None and model.__module__ in _ELEMENTWISE
            made = None
            if op.inputs and (plain or known(op.name)):
                made = complete(
                    op, values_recorded=self._values, elementwise=plain, dtype=dtype
                ) or forward_sized(op, self._sizes)
            self._complete[key] = made
        return self._complete[key]

    def _cost(self, index: int, tf32: bool, dtype: str) -> tuple[Kernel, ...]:
        key = (index, tf32, dtype)
        if key not in self._costed:
            self._costed[key] = self._costed_now(index, tf32, dtype)
        return self._costed[key]

    def _costed_now(self, index: int, tf32: bool, dtype: str) -> tuple[Kernel, ...]:
        if self.device is None or self._constants is None:
            return ()
        op = self._completed(index, dtype)
        model = model_for(op.name) if op is not None else None
        if op is None or model is None:
            return ()
        settings = (("tf32_cudnn", tf32), ("tf32_matmul", tf32))
        size = sum(t.nbytes for t in (*op.inputs, *op.outputs))
        hot = size <= _HOT_SHARE * float(self.device.l2_bytes or 0)
        work = Work(op, self.device, self._constants, settings, (hot,) * len(op.inputs))
        try:
            return model(work)
        except (GpuscopeError, ValueError, IndexError, ZeroDivisionError, TypeError):
            # Shapes that the model was not made for (a trace may hold anything): no model then.
            return ()


def _calls(timeline: Timeline, recorded: Recorded, coster: _Coster) -> Ints:
    """Row of the operator event that each device event is costed with; -1 if there is none."""
    events = timeline.events
    at = recorded.operator.copy()
    at[events.kind[recorded.event] == _COMMUNICATION] = -1
    if coster.device is None or not timeline.ops or not (at >= 0).any():
        return np.full(len(at), -1, np.int64)
    above: Ints | None = None
    verdict = np.full(len(timeline.ops), -1, np.int64)  # -1: not asked yet
    while True:
        ops = np.where(at >= 0, events.op[np.maximum(at, 0)], -1)
        for op in np.unique(ops[ops >= 0]).tolist():
            if verdict[op] < 0:
                verdict[op] = coster.usable(op)
        going = (at >= 0) & ((ops < 0) | (verdict[np.maximum(ops, 0)] == 0))
        if not going.any():
            return at
        if above is None:  # costs more than all the rest: only where it is needed
            above = parent_rows(events, (events.kind == _OPERATOR) & (events.op >= 0))
        at[going] = above[at[going]]


@dataclass(frozen=True, slots=True)
class _Sorts:
    """Distinct launches (symbol, grid, block, registers, shared memory, bytes of a copy).

    Attributes:
        code: which of them each device event is.
        launches: what each is, with its mean recorded duration.
        time_ns: recorded duration of each device event.
    """

    code: Ints
    launches: tuple[Launch, ...]
    time_ns: Ints

    @classmethod
    def of(cls, timeline: Timeline, recorded: Recorded, device: Device | None) -> _Sorts:
        events = timeline.events
        name, kind = events.name[recorded.event], events.kind[recorded.event]
        blocks, threads = recorded.grid.prod(axis=1), recorded.block.prod(axis=1)
        unknown = (recorded.grid < 0).any(axis=1) | (recorded.block < 0).any(axis=1)
        keys = (
            name,
            kind,
            np.where(unknown, 0, blocks),
            np.where(unknown, 0, threads),
            recorded.registers,
            recorded.shared_bytes,
            recorded.nbytes,
        )
        first, code = group_rows(*keys)
        time_ns = events.duration_ns[recorded.event]
        mean = np.bincount(code, weights=time_ns) / np.maximum(np.bincount(code), 1) * 1e-9
        shape = launch_shape(timeline, device)
        launches = []
        for number, row in enumerate(first.tolist()):
            filled = shape is not None and bool(np.isfinite(shape.waves[row]))
            launches.append(
                Launch(
                    symbol=timeline.names[int(name[row])],
                    sort=EVENT_KINDS[int(kind[row])] if kind[row] < DEVICE_KINDS else "kernel",
                    time_s=float(mean[number]),
                    nbytes=max(int(recorded.nbytes[row]), 0),
                    grid=int(keys[2][row]),
                    block=int(keys[3][row]),
                    waves=float(shape.waves[row]) if filled and shape is not None else 0.0,
                    occupancy=float(shape.occupancy[row]) if filled and shape is not None else None,
                )
            )
        return cls(code, tuple(launches), time_ns)


@dataclass(frozen=True, slots=True)
class _Group:
    """Calls of one operator with the same launches.

    Attributes:
        op: index into `Timeline.ops`.
        codes: the launches of a call, in order.
        times_s: mean recorded duration of each over the calls.
        rows: (calls, launches) rows in `Recorded`.
    """

    op: int
    codes: tuple[int, ...]
    times_s: tuple[float, ...]
    rows: Ints


def _groups(timeline: Timeline, call: Ints, sorts: _Sorts) -> list[_Group]:
    """Calls with equal operators and equal launches, together."""
    events = timeline.events
    assert timeline.recorded is not None
    rows = np.flatnonzero(call >= 0)
    if not len(rows):
        return []
    start = events.start_ns[timeline.recorded.event[rows]]
    rows = rows[np.lexsort((start, call[rows]))]
    of_call = call[rows]
    begins = np.flatnonzero(np.concatenate(([True], of_call[1:] != of_call[:-1])))
    counts = np.diff(np.append(begins, len(rows)))
    place = np.arange(len(rows)) - np.repeat(begins, counts)
    op = events.op[of_call[begins]]
    signature = np.add.reduceat(_scrambled(sorts.code[rows], place), begins)
    first, number = group_rows(op, counts, signature)
    order = np.argsort(number, kind="stable")
    edges = np.searchsorted(number[order], np.arange(len(first) + 1))
    groups = []
    for i, one in enumerate(first.tolist()):
        length = int(counts[one])
        members = begins[order[edges[i] : edges[i + 1]]]
        table = rows[members[:, None] + np.arange(length)]
        groups.append(
            _Group(
                op=int(op[one]),
                codes=tuple(sorts.code[table[0]].tolist()),
                times_s=tuple((sorts.time_ns[table].mean(axis=0) * 1e-9).tolist()),
                rows=table,
            )
        )
    return groups


def _scrambled(code: Ints, place: Ints) -> Ints:
    """A number for each launch at its place, so that sums tell sequences apart (splitmix64)."""
    with np.errstate(over="ignore"):
        x = code.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x += place.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(1)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (x ^ (x >> np.uint64(31))).astype(np.int64)
