"""Events of one simulated step, from a schedule and the walk over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpuscope.cost.types import CostedProgram, Kernel
from gpuscope.document.text import Text
from gpuscope.timeline.schedule import Schedule
from gpuscope.timeline.types import EVENT_KINDS, Collective, Events, Ints, Messages, Step, Timeline
from gpuscope.timeline.walk import Walk

if TYPE_CHECKING:
    from gpuscope.timeline.message_columns import Naming

_KIND = {name: number for number, name in enumerate(EVENT_KINDS)}

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Part:
    """Some events of one origin, times in seconds of the walk's clock; names as text."""

    start_s: Floats
    end_s: Floats
    names: list[str]
    kind: Ints
    lane: Ints
    op: Ints
    kernel: Ints
    correlation: Ints


def build_timeline(
    costed: CostedProgram,
    schedule: Schedule,
    walk: Walk,
    *,
    origin_s: float | None = None,
    naming: Naming | None = None,
    notes: tuple[str, ...] = (),
) -> Timeline:
    """Draw the last step of a walk.

    Every time is rounded to a nanosecond once, so events that touch still touch.

    Args:
        costed, schedule, walk: the step.
        origin_s: the timeline's zero on the walk's clock; by default `begin_s`.
        naming: how groups and peers are called; by default as the program does.
        notes: remarks besides the program's own.
    """
    parts = (
        _device_part(schedule, walk),
        _launch_part(schedule, walk),
        _operator_part(costed, schedule, walk),
        _wait_part(costed, schedule, walk),
        _step_part(schedule, walk),
    )
    window_end_s = walk.ends_s[-1]
    window_begin_s = window_end_s - walk.period_s
    origin_s = begin_s(walk) if origin_s is None else origin_s
    names, events, order = _merge(parts, origin_s)
    rows = np.flatnonzero(schedule.kernel >= 0)
    collectives, messages = _messages(costed, schedule, rows, naming, order)
    window = Step(_nanoseconds(window_begin_s - origin_s), _nanoseconds(window_end_s - origin_s))
    return Timeline(
        names=names,
        lanes=schedule.lanes,
        events=events,
        steps=(window,),
        kernels=schedule.kernels,
        ops=tuple(item.op for item in costed.ops),
        notes=(*costed.assumptions, *notes, *_notes(schedule)),
        collectives=collectives,
        messages=messages,
    )


def begin_s(walk: Walk) -> float:
    """The earliest event of a walk's last step, or the begin of its window if that comes first."""
    first_s = float(walk.start_s.min()) if len(walk.start_s) else walk.host_begin_s
    return min(walk.ends_s[-1] - walk.period_s, walk.host_begin_s, first_s)


def _messages(
    costed: CostedProgram, schedule: Schedule, rows: Ints, naming: Naming | None, order: Ints
) -> tuple[tuple[Collective, ...], Messages | None]:
    """Distinct calls, and their columns by row of `Events`; of device tasks, which come first."""
    if all(kernel.lane != "link" for kernel in schedule.kernels):
        return (), None
    from gpuscope.timeline.message_columns import message_columns

    collectives, collective, sequence = message_columns(costed, schedule, rows, naming)
    if not len(collective) or (collective < 0).all():
        return collectives, None
    event = np.empty(len(order), np.int64)
    event[order] = np.arange(len(order))
    known = np.flatnonzero(collective >= 0)
    known = known[np.argsort(event[known])]
    return collectives, Messages(event[known], collective[known], sequence[known])


def event_kind(kernel: Kernel) -> str:
    """Kind of the device event of a kernel."""
    if kernel.kind == "collective" or kernel.lane == "link":
        return "communication"
    if kernel.kind == "transfer" or kernel.lane.startswith("copy_"):
        return "memcpy"
    return "memset" if kernel.kind == "memset" else "kernel"


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _full(length: int, value: int) -> Ints:
    return np.full(length, value, np.int64)


def _device_part(schedule: Schedule, walk: Walk) -> _Part:
    """Kernels, copies and collectives."""
    rows = np.flatnonzero(schedule.kernel >= 0)
    number = schedule.kernel[rows]
    kinds = np.array([_KIND[event_kind(k)] for k in schedule.kernels], np.int64)
    return _Part(
        start_s=walk.start_s[rows],
        end_s=walk.end_s[rows],
        names=[schedule.kernels[i].name for i in number.tolist()],
        kind=kinds[number],
        lane=schedule.lane[rows],
        op=schedule.op[rows],
        kernel=number,
        correlation=schedule.launch[rows],
    )


def _waited_before(walk: Walk) -> Floats:
    """How long the host has waited before each row, one entry more than there are rows."""
    return np.concatenate(([0.0], walk.waited_s))


def _launch_part(schedule: Schedule, walk: Walk) -> _Part:
    """Launch calls; one that finds the launch queue full lasts until there is room."""
    waited, rows = _waited_before(walk), schedule.launch_row
    end_s = walk.host_begin_s + schedule.launch_host_s
    count = len(rows)
    return _Part(
        start_s=end_s - schedule.launch_cost_s + waited[rows],
        end_s=end_s + waited[rows + 1],
        names=["graph launch" if op < 0 else "launch" for op in schedule.launch_op.tolist()],
        kind=_full(count, _KIND["launch"]),
        lane=_lane_by_op(schedule)[schedule.launch_op],
        op=schedule.launch_op,
        kernel=_full(count, -1),
        correlation=np.arange(count, dtype=np.int64),
    )


def _lane_by_op(schedule: Schedule) -> Ints:
    """Host lane by operator index; the last entry (index -1) is the main thread, for graphs."""
    highest = max(int(schedule.op.max(initial=-1)), int(schedule.op_index.max(initial=-1)))
    lanes = np.zeros(highest + 2, np.int64)
    eager = schedule.op_index >= 0
    lanes[schedule.op_index[eager]] = schedule.op_lane[eager]
    return lanes


def _operator_part(costed: CostedProgram, schedule: Schedule, walk: Walk) -> _Part:
    """Operator calls of the host; those inside a graph are not issued one by one."""
    eager = schedule.op_index >= 0
    waited, index = _waited_before(walk), schedule.op_index[eager]
    begin_s = schedule.op_begin_s[eager] + waited[schedule.op_first_row[eager]]
    end_s = schedule.op_end_s[eager] + waited[schedule.op_end_row[eager]]
    count = len(index)
    return _Part(
        start_s=walk.host_begin_s + begin_s,
        end_s=walk.host_begin_s + end_s,
        names=[costed.ops[i].op.name for i in index.tolist()],
        kind=_full(count, _KIND["operator"]),
        lane=schedule.op_lane[eager],
        op=index,
        kernel=_full(count, -1),
        correlation=_full(count, -1),
    )


def _wait_part(costed: CostedProgram, schedule: Schedule, walk: Walk) -> _Part:
    """Synchronisations: the host stands still until the device is done."""
    rows = np.flatnonzero(schedule.kernel < 0)
    index = schedule.op[rows]
    return _Part(
        start_s=walk.start_s[rows],
        end_s=walk.end_s[rows],
        names=[costed.ops[i].host.sync for i in index.tolist()],
        kind=_full(len(rows), _KIND["sync"]),
        lane=_lane_by_op(schedule)[index],
        op=index,
        kernel=_full(len(rows), -1),
        correlation=_full(len(rows), -1),
    )


def _step_part(schedule: Schedule, walk: Walk) -> _Part:
    """The mark that covers the host's part of the step on its main thread."""
    waited_s = float(walk.waited_s[-1]) if len(walk.waited_s) else 0.0
    end_s = walk.host_begin_s + schedule.host_step_s + waited_s
    none = _full(1, -1)
    return _Part(
        start_s=np.array([walk.host_begin_s]),
        end_s=np.array([end_s]),
        names=["step"],
        kind=_full(1, _KIND["step"]),
        lane=_full(1, 0),
        op=none,
        kernel=none,
        correlation=none,
    )


def _merge(parts: tuple[_Part, ...], origin_s: float) -> tuple[tuple[str, ...], Events, Ints]:
    """One sorted table of events: by start, lane, and the longer (enclosing) event first.

    Also which row of the parts, one after the other, each event was.
    """
    table: dict[str, int] = {}
    name = [table.setdefault(text, len(table)) for part in parts for text in part.names]
    start_s = np.concatenate([part.start_s for part in parts])
    end_s = np.concatenate([part.end_s for part in parts])
    start_ns = np.rint((start_s - origin_s) * 1e9).astype(np.int64)
    duration_ns = np.rint((end_s - origin_s) * 1e9).astype(np.int64) - start_ns
    lane = np.concatenate([part.lane for part in parts])
    order = np.lexsort((-duration_ns, lane, start_ns))
    events = Events(
        start_ns=start_ns[order],
        duration_ns=duration_ns[order],
        name=np.array(name, np.int64)[order],
        kind=np.concatenate([part.kind for part in parts])[order],
        lane=lane[order],
        op=np.concatenate([part.op for part in parts])[order],
        kernel=np.concatenate([part.kernel for part in parts])[order],
        correlation=np.concatenate([part.correlation for part in parts])[order],
    )
    return tuple(table), events, order


def _notes(schedule: Schedule) -> tuple[str, ...]:
    """What a reader should know about how far the picture can be trusted."""
    if sum(lane.kind == "stream" for lane in schedule.lanes) > 1:
        return (
            Text("Kernels that run at the same time on different streams do not slow each other."),
        )
    return ()
