"""Where the step's time goes: by class, by operator, by kernel family, by phase.

Device time is attributed once (see `gpuscope.analysis.window`); idle time comes with its cause.
Rows of `classes` add up to the step, rows of the others to the device's busy time.

Classes of device work:

- communication: collectives, where no kernel hides them;
- transfers: copies between host and device, where no kernel hides them;
- launch-bound: the cost model names the launch as the limit, or the kernel is shorter than
  `SHORT_KERNEL_S` and neither its arithmetic nor its traffic explains half of its time;
- instruction-bound: issuing instructions or waiting for them sets the time of a longer kernel
  (index arithmetic, conversions, few warps), neither arithmetic nor memory is near its limit;
- compute-bound, bandwidth-bound: the cost model's limiter; where it names none, whichever of
  arithmetic and traffic explains more, if that is at least half;
- not classified: kernels of a recorded timeline without a cost model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import (
    Floats,
    KernelColumns,
    OpColumns,
    crossing,
    largest_part,
    present,
    sums,
    take,
)
from gpuscope.analysis.roofs import Roofs
from gpuscope.analysis.symbols import kernel_family, short_symbol
from gpuscope.analysis.types import Share
from gpuscope.analysis.window import COMMUNICATION, KERNEL, MEMCPY, DeviceWork
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Ints, Timeline

CLASSES: tuple[str, ...] = (
    "compute-bound",
    "bandwidth-bound",
    "instruction-bound",
    "launch-bound",
    "transfers",
    "communication",
    "not classified",
)
"""Classes of device work; idle rows are labelled "idle: " + cause."""

(COMPUTE, BANDWIDTH, INSTRUCTIONS, LAUNCH_BOUND, TRANSFERS, COMMUNICATED, UNCLASSIFIED) = range(
    len(CLASSES)
)

IDLE_PREFIX = "idle: "

WAITING, MOVING = "communication: waiting for another rank", "communication: transfer"
"""Rows that take the place of "communication" where other ranks' recordings tell them apart."""

SHORT_KERNEL_S = 5e-6
"""Kernels shorter than this can be dominated by their launch: on an H200 an empty kernel takes
about 2.3 us, so that a 5-us kernel spends half of its time starting and stopping."""

_LIMITER_CLASS: Mapping[str, int] = {
    "compute": COMPUTE,
    "tensor_core": COMPUTE,
    "memory": BANDWIDTH,
    "l2": BANDWIDTH,
    "issue": INSTRUCTIONS,
    "latency": INSTRUCTIONS,
    "launch": LAUNCH_BOUND,
    "host": LAUNCH_BOUND,
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Device events of the step joined with what is known of their kernels; equal columns.

    Attributes:
        work: the events.
        kernels, ops: the columns that `work.kernel` and `work.op` index.
        running_ns: duration of each event, whole, whatever runs beside it.
        launches: how many launches each event stands for.
        flops, moved_bytes: per event, 0 where unknown.
        best_s: time at the roofline, never above the event's attributed time, divided by the
            number of steps; NaN if unknown.
        class_code: index into `CLASSES`.
        modelled: whether a cost model says what the event's kernel does; copies, memsets and
            communication count as known.
        seconds: factor from attributed nanoseconds to seconds of one step.
    """

    work: DeviceWork
    kernels: KernelColumns
    ops: OpColumns
    running_ns: Ints
    launches: Floats
    flops: Floats
    moved_bytes: Floats
    best_s: Floats
    class_code: Ints
    modelled: npt.NDArray[np.bool_]
    seconds: float

    @property
    def time_s(self) -> Floats:
        """Attributed seconds of each event, per step."""
        return np.asarray(self.work.attributed_ns * self.seconds, np.float64)

    def unmodelled_share(self, kinds: Iterable[str] | None = None) -> float:
        """Return the share of the busy time in kernels that no model covers, 0..1.

        Args:
            kinds: only kernels of these families (and those without a family) count.
        """
        missing = ~self.modelled
        if kinds is not None:
            wanted = set(kinds) | {"unknown"}
            among = np.array([kind in wanted for kind in self.kernels.kind.table], bool)
            missing &= among[self.kernels.kind.take(self.work.kernel)]
        total = int(self.work.attributed_ns.sum())
        return float(self.work.attributed_ns[missing].sum()) / total if total else 0.0


def join(
    timeline: Timeline,
    work: DeviceWork,
    kernels: KernelColumns,
    ops: OpColumns,
    roofs: Roofs,
    scale: float = 1.0,
) -> Rows:
    """Join the device events of a window with their kernels.

    Args:
        timeline, work, kernels, ops, roofs: what to join.
        scale: factor on all device times (see `gpuscope.analysis.analyze`).
    """
    seconds = scale * 1e-9 / work.window.steps
    best = take(roofs.best_s(kernels), work.kernel, np.nan)
    attributed = work.attributed_ns * 1e-9
    return Rows(
        work=work,
        kernels=kernels,
        ops=ops,
        running_ns=timeline.events.duration_ns[work.event],
        launches=take(kernels.launches, work.kernel, 1.0),
        flops=take(kernels.flops, work.kernel),
        moved_bytes=_moved(timeline, work, kernels, roofs),
        best_s=np.minimum(best, attributed) * scale / work.window.steps,
        class_code=_classify(timeline, work, kernels),
        modelled=(work.kind != KERNEL) | ~_without_model(timeline, work, kernels),
        seconds=seconds,
    )


def _moved(timeline: Timeline, work: DeviceWork, kernels: KernelColumns, roofs: Roofs) -> Floats:
    """Bytes of each event across device memory."""
    rate = None if roofs.device is None else roofs.device.memory_bandwidth_bytes_per_s
    moved, running_ns = kernels.moved_bytes, timeline.events.duration_ns[work.event]
    return crossing(take(moved, work.kernel), moved, work.kernel, running_ns, rate)


def _without_model(
    timeline: Timeline, work: DeviceWork, kernels: KernelColumns
) -> npt.NDArray[np.bool_]:
    """Return which events have no kernel, or one of which only the family is known."""
    if timeline.origin == "predicted":
        return work.kernel < 0
    said = (kernels.flops > 0) | (kernels.compute_s > 0) | (kernels.memory_s > 0)
    return np.asarray(take(said.astype(np.float64), work.kernel) == 0, np.bool_)


def _classify(timeline: Timeline, work: DeviceWork, kernels: KernelColumns) -> Ints:
    """Return the class of each event."""
    known = work.kernel >= 0
    by_limiter = np.array([_LIMITER_CLASS.get(t, UNCLASSIFIED) for t in kernels.limiter.table])
    named = by_limiter[kernels.limiter.take(work.kernel)]
    if timeline.origin == "predicted":
        duration = take(kernels.duration_s, work.kernel)
    else:  # what it really took
        duration = np.asarray((work.end_ns - work.start_ns) * 1e-9, np.float64)
    compute, memory = take(kernels.compute_s, work.kernel), take(kernels.memory_s, work.kernel)
    explained = np.maximum(compute, memory) >= duration / 2
    guessed = np.where(compute > memory, COMPUTE, BANDWIDTH)
    code = np.where((named == UNCLASSIFIED) & explained & known, guessed, named)
    known &= ~_without_model(timeline, work, kernels)
    short = known & (duration < SHORT_KERNEL_S) & (~explained | (named == INSTRUCTIONS))
    code = np.where(short, LAUNCH_BOUND, code)
    return _classify_copies(timeline, work, code)


def _classify_copies(timeline: Timeline, work: DeviceWork, code: Ints) -> Ints:
    """Overrule the class where the event's kind says more than its kernel."""
    on_device = np.array(
        [any(mark in name for mark in ("DtoD", "Device -> Device")) for name in timeline.names],
        bool,
    )
    local = on_device[work.name] if len(on_device) else np.zeros(len(work), bool)
    unknown = (work.kernel < 0) | (code == UNCLASSIFIED)
    short = work.end_ns - work.start_ns < SHORT_KERNEL_S * 1e9
    inside = unknown & (local | (work.kind > MEMCPY)) & (work.kind >= MEMCPY)
    code = np.where(inside, np.where(short, LAUNCH_BOUND, BANDWIDTH), code)
    code = np.where((work.kind == MEMCPY) & ~local, TRANSFERS, code)
    return np.where(work.kind == COMMUNICATION, COMMUNICATED, code)


def classes(
    rows: Rows, idle_s: Mapping[str, float], waiting_share: float | None = None
) -> tuple[Share, ...]:
    """Return the step by class, largest first; adds up to busy plus idle.

    Args:
        rows: the device events.
        idle_s: idle seconds by cause.
        waiting_share: part of this rank's exposed communication, 0 to 1, that is waiting for
            another rank; None where that is not known, and communication is one row.
    """
    device = _shares(rows, rows.class_code, CLASSES)
    if waiting_share is not None:
        device = _waiting_apart(device, waiting_share)
    idle = [Share(IDLE_PREFIX + cause, time) for cause, time in idle_s.items() if time > 0]
    return tuple(sorted([*device, *idle], key=lambda share: -share.time_s))


def _waiting_apart(shares: tuple[Share, ...], waiting_share: float) -> tuple[Share, ...]:
    """Put two rows with the same sum in the place of communication."""
    out: list[Share] = []
    for share in shares:
        if share.label != CLASSES[COMMUNICATED]:
            out.append(share)
            continue
        waiting_s = share.time_s * waiting_share
        parts = ((WAITING, waiting_s), (MOVING, share.time_s - waiting_s))
        out.extend(
            replace(share, label=label, time_s=time_s) for label, time_s in parts if time_s > 0
        )
    return tuple(out)


def operators(rows: Rows, timeline: Timeline) -> tuple[Share, ...]:
    """Return device time by operator, or by kernel name where the operator is not known."""
    op_names = rows.ops.name.take(rows.work.op)
    offset = len(rows.ops.name.table)
    codes = np.where(op_names > 0, op_names, offset + rows.work.name)
    return _shares(rows, codes, (*rows.ops.name.table, *timeline.names))


def kinds(rows: Rows) -> tuple[Share, ...]:
    """Return device time by kernel family, or by kind of event where the family is not known."""
    families = rows.kernels.kind.take(rows.work.kernel)
    table = (*rows.kernels.kind.table, *EVENT_KINDS[:DEVICE_KINDS])
    codes = np.where(families > 0, families, len(rows.kernels.kind.table) + rows.work.kind)
    return _shares(rows, codes, table)


def symbols(rows: Rows, timeline: Timeline) -> tuple[Share, ...]:
    """Return device time by the device's own symbol, shortened, each with its family."""
    labels = [""] * len(timeline.names)
    for name in present(rows.work.name):
        labels[name] = short_symbol(timeline.names[name])
    shares = _shares(rows, rows.work.name, tuple(labels))
    families = {
        labels[name]: kernel_family(timeline.names[name]) for name in present(rows.work.name)
    }
    return tuple(replace(share, family=families.get(share.label, "")) for share in shares)


def phases(rows: Rows) -> tuple[Share, ...]:
    """Return device time by phase; empty where no operator is known."""
    if not rows.ops.ops:
        return ()
    return _shares(rows, rows.ops.phase.take(rows.work.op), rows.ops.phase.table)


def _shares(rows: Rows, codes: Ints, labels: tuple[str, ...]) -> tuple[Share, ...]:
    """Return one row per label with events, largest first; equal labels become one row."""
    codes, labels = _merge_labels(codes, labels)
    n = len(labels)
    count = np.bincount(codes, weights=rows.launches, minlength=n)
    steps = rows.work.window.steps
    time = sums(codes, rows.work.attributed_ns, n) * rows.seconds
    running = sums(codes, rows.running_ns, n) * rows.seconds
    flops, moved = sums(codes, rows.flops, n) / steps, sums(codes, rows.moved_bytes, n) / steps
    best = _best(rows, codes, n)
    limiters = rows.kernels.limiter.table
    limiter = largest_part(
        codes,
        rows.kernels.limiter.take(rows.work.kernel),
        rows.work.attributed_ns,
        n,
        len(limiters),
    )
    shares = [
        Share(
            label=labels[i],
            time_s=float(time[i]),
            count=max(1, round(float(count[i]) / steps)),
            flops=float(flops[i]),
            moved_bytes=float(moved[i]),
            limiter=limiters[limiter[i]] if limiter[i] else "",
            best_s=None if np.isnan(best[i]) else float(best[i]),
            running_s=float(running[i]),
        )
        for i in np.flatnonzero(count)
    ]
    return tuple(sorted(shares, key=lambda share: -share.time_s))


def _best(rows: Rows, codes: Ints, groups: int) -> Floats:
    """Time at the roofline by group: events without a roof count as they are.

    NaN for groups in which no event has a roof.
    """
    known = ~np.isnan(rows.best_s)
    total = sums(codes, np.where(known, rows.best_s, rows.time_s), groups)
    return np.where(sums(codes, known.astype(np.int64), groups) > 0, total, np.nan)


def _merge_labels(codes: Ints, labels: tuple[str, ...]) -> tuple[Ints, tuple[str, ...]]:
    number: dict[str, int] = {}
    renumber = np.array([number.setdefault(label, len(number)) for label in labels], np.int64)
    return renumber[codes], tuple(number)
