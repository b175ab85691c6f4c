"""What the ranks of a predicted job do with a step, and what keeps the job from scaling.

Every moment of a rank's step is one of: computing (a kernel runs, or a copy alone), exposed
communication (data moves, no kernel runs), bubble (it waits for another stage), imbalance (it waits
for another rank in any other communication), idle (nothing runs). A communication waits until the
last of its ranks has come (`gpuscope.analysis.collective_match`) and moves data afterwards. The
steps of a steady job overlap: what begins before the step's window began also runs at the end of
it, for the next step, and is counted there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.collective_match import Match, match_collectives
from gpuscope.analysis.job_types import GroupTime, JobPart, JobRank, JobStory
from gpuscope.analysis.roofs import MATRIX_KINDS
from gpuscope.analysis.utilisation import REPEATED_IN_ATTENTION_BACKWARD
from gpuscope.analysis.window import KERNEL
from gpuscope.cost.types import Kernel
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, capital
from gpuscope.program.types import Op, Program
from gpuscope.timeline.intervals import Intervals, intersection, merge, subtraction
from gpuscope.timeline.types import DEVICE_KINDS, Ints, Timeline

NS = 1e-9

_PAIRS = frozenset({"send", "recv", "send_recv"})
_MESH_LABELS = frozenset({"dp", "tp", "cp", "ep", "world"})

LEAST_LIMIT = 0.05
"""A loss below this share of the step is no limit worth naming."""

GROUP_WORDS: Mapping[str, Text] = {
    "dp": Text("data parallel communication"),
    "tp": Text("tensor parallel communication"),
    "pp": Text("sends between pipeline stages"),
    "cp": Text("context parallel communication"),
    "ep": Text("expert parallel communication"),
    "world": Text("communication of all ranks"),
}
"""What to call a group's communication in a sentence."""


def job_story(
    timeline: Timeline,
    *,
    step_time_s: float,
    program: Program | None = None,
    match: Match | None = None,
) -> JobStory | None:
    """Tell where a predicted job's step goes; None where no rank talks to another.

    Args:
        timeline: a prediction with all distinct ranks (`Timeline.stands_for`, `messages`).
        step_time_s: the step, waiting by chance included.
        program: any rank's, for the mesh.
        match: `match_collectives(timeline)`, where it is there already.
    """
    if timeline.messages is None or not timeline.stands_for or not timeline.steps:
        return None
    columns = _columns(timeline, match_collectives(timeline) if match is None else match)
    mesh = _mesh(program, sum(map(len, timeline.stands_for.values())))
    period_ns = max(step.end_ns - step.start_ns for step in timeline.steps)
    windows = {step.rank: (step.end_ns - period_ns, step.end_ns) for step in timeline.steps}
    ranks = tuple(
        _rank(columns, rank, len(members), windows[rank], mesh)
        for rank, members in sorted(timeline.stands_for.items())
        if rank in windows
    )
    if not any(rank.groups for rank in ranks):
        return None
    chance_s = max(0.0, step_time_s - period_ns * NS)
    parts = _parts(ranks, chance_s)
    limit = _limit(parts, step_time_s)
    return JobStory(step_time_s, chance_s, mesh, ranks, parts, limit)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Device events of all ranks, and when each communication begins to move data.

    Attributes:
        rank, start_ns, end_ns: of each event.
        moves_ns: when its last rank has come; its start where it waits for nobody.
        kernel: it is a kernel.
        label: index into `labels`; -1 for kernels and copies.
        pair: it is a send or a receive.
        labels: of groups, without numbers.
        model_flops, hardware_flops: of each event.
    """

    rank: Ints
    start_ns: Ints
    end_ns: Ints
    moves_ns: Ints
    kernel: npt.NDArray[np.bool_]
    label: Ints
    pair: npt.NDArray[np.bool_]
    labels: tuple[str, ...]
    model_flops: npt.NDArray[np.float64]
    hardware_flops: npt.NDArray[np.float64]


def _columns(timeline: Timeline, match: Match) -> _Columns:
    events = timeline.events
    rows = np.flatnonzero(events.kind < DEVICE_KINDS)
    of_lane = np.array([lane.rank for lane in timeline.lanes], np.int64)
    start, end = events.start_ns[rows], events.end_ns[rows]
    moves, label = start.copy(), np.full(len(rows), -1, np.int64)
    pair = np.zeros(len(rows), np.bool_)
    calls = match.calls
    at = np.searchsorted(rows, calls.event)
    names = tuple(_label(name) for name, _, _ in calls.groups)
    labels = tuple(dict.fromkeys(names))
    number = np.array([labels.index(name) for name in names], np.int64)
    label[at] = number[calls.group] if len(calls) else 0
    pair[at] = np.array([sort in _PAIRS for sort in calls.sorts], np.bool_)[calls.sort]
    met = np.flatnonzero((match.id >= 0) & ~match.alone)
    last = np.full(match.count, np.iinfo(np.int64).min)
    np.maximum.at(last, match.id[met], match.arrival_ns[met])
    moves[at[met]] = np.clip(last[match.id[met]], start[at[met]], end[at[met]])
    model, hardware = _flops(timeline, rows)
    kernel = events.kind[rows] == KERNEL
    return _Columns(
        of_lane[events.lane[rows]], start, end, moves, kernel, label, pair, labels, model, hardware
    )


def _flops(timeline: Timeline, rows: Ints) -> tuple[npt.NDArray[np.float64], ...]:
    """Model and hardware FLOPs of each event, as `gpuscope.analysis.utilisation` defines them."""
    events = timeline.events
    kernels = [kernel for kernel in timeline.kernels if isinstance(kernel, Kernel)]
    if len(kernels) < len(timeline.kernels):
        return np.zeros(len(rows)), np.zeros(len(rows))
    # The last entries stand for index -1, unknown.
    flops = np.array([k.flops if k.kind in MATRIX_KINDS else 0.0 for k in kernels] + [0.0])
    attends = np.array([k.kind == "attention" for k in kernels] + [False])
    ops = [op if isinstance(op, Op) else None for op in timeline.ops]
    again = np.array([op is not None and op.recomputed for op in ops] + [False])
    back = np.array([op is not None and op.phase == "backward" for op in ops] + [False])
    hardware = flops[events.kernel[rows]]
    op, kernel = events.op[rows], events.kernel[rows]
    repeated = np.where(back[op] & attends[kernel], REPEATED_IN_ATTENTION_BACKWARD, 0.0)
    return hardware * (1.0 - np.where(again[op], 1.0, repeated)), hardware


def _label(group: str) -> str:
    """The group's label without the name that tells several of one label apart."""
    return group.partition(" ")[0]


def _mesh(program: Program | None, ranks: int) -> tuple[tuple[str, int], ...]:
    """The mesh where it spans all ranks, dimensions of one rank left out."""
    dims = program.mesh if program is not None else ()
    if math.prod(dim.size for dim in dims) != ranks:
        return ()
    return tuple((dim.name, dim.size) for dim in dims if dim.size > 1)


def place_of(rank: int, mesh: Sequence[tuple[str, int]]) -> tuple[int, ...]:
    """Coordinates of a rank in a mesh whose last dimension is the innermost.

    Args:
        rank: its number.
        mesh: names and sizes of the dimensions, outermost first.
    """
    found = []
    for _, size in reversed(mesh):
        rank, at = divmod(rank, size)
        found.append(at)
    return tuple(reversed(found))


def _wrapped(start_ns: Ints, end_ns: Ints, window: tuple[int, int]) -> Intervals:
    """Times of a steady step inside its window: what lies before it comes again at its end."""
    low, high = window
    if high <= low:
        return merge(start_ns, end_ns)
    start, end, length = start_ns - low, end_ns - low, high - low
    begins, ends = [], []
    first = min(0, int((start // length).min(initial=0)))
    last = max(0, int((end // length).max(initial=0)))
    for lap in range(first, last + 1):
        begins.append(np.clip(start - lap * length, 0, length))
        ends.append(np.clip(end - lap * length, 0, length))
    return merge(np.concatenate(begins), np.concatenate(ends))


def _rank(
    columns: _Columns,
    rank: int,
    count: int,
    window: tuple[int, int],
    mesh: tuple[tuple[str, int], ...],
) -> JobRank:
    own = columns.rank == rank
    works = own & (columns.label < 0)
    kernels = works & columns.kernel
    working = _wrapped(columns.start_ns[kernels], columns.end_ns[kernels], window)
    taken = working
    found: list[GroupTime] = []
    # Data that moves comes before waiting: a moment in which both happen is no waiting.
    moving: dict[int, float] = {}
    for moves in (True, False):
        for number in _by_pairs(columns, own):
            rows = own & (columns.label == number)
            begin = columns.moves_ns[rows] if moves else columns.start_ns[rows]
            end = columns.end_ns[rows] if moves else columns.moves_ns[rows]
            bare = subtraction(_wrapped(begin, end, window), taken)
            taken = _joined(taken, bare)
            if moves:
                moving[number] = _length_s(bare)
                continue
            whole = _wrapped(columns.start_ns[rows], columns.end_ns[rows], window)
            found.append(
                GroupTime(
                    label=columns.labels[number],
                    running_s=_length_s(whole),
                    hidden_s=_length_s(intersection(whole, working)),
                    exposed_s=moving[number],
                    waiting_s=_length_s(bare),
                    pipeline=_is_pipeline(columns, rows, number),
                )
            )
    # Copies come last, as in the step's classes: beside communication they do not hide it.
    copies = _wrapped(columns.start_ns[works], columns.end_ns[works], window)
    copied = subtraction(copies, taken)
    taken = _joined(taken, copied)
    bubble_s = sum(group.waiting_s for group in found if group.pipeline)
    waiting_s = sum(group.waiting_s for group in found)
    return JobRank(
        rank=rank,
        count=count,
        place=place_of(rank, mesh) if mesh else (),
        compute_s=_length_s(working) + _length_s(copied),
        exposed_s=sum(group.exposed_s for group in found),
        bubble_s=bubble_s,
        imbalance_s=waiting_s - bubble_s,
        idle_s=max(0.0, (window[1] - window[0]) * NS - _length_s(taken)),
        groups=tuple(sorted(found, key=lambda g: -(g.exposed_s + g.waiting_s))),
        model_flops=float(columns.model_flops[own].sum()),
        hardware_flops=float(columns.hardware_flops[own].sum()),
    )


def _by_pairs(columns: _Columns, own: npt.NDArray[np.bool_]) -> list[int]:
    """Labels that a rank talks in: collectives first, those of pairs after them."""
    labels = np.unique(columns.label[own & (columns.label >= 0)]).tolist()
    return sorted(labels, key=lambda n: bool(columns.pair[own & (columns.label == n)].all()))


def _is_pipeline(columns: _Columns, rows: npt.NDArray[np.bool_], number: int) -> bool:
    return columns.labels[number] not in _MESH_LABELS and bool(columns.pair[rows].any())


def _joined(first: Intervals, second: Intervals) -> Intervals:
    return merge(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))


def _length_s(intervals: Intervals) -> float:
    return int((intervals[1] - intervals[0]).sum()) * NS


def _parts(ranks: Sequence[JobRank], chance_s: float) -> tuple[JobPart, ...]:
    """Means over all ranks, computing first, then losses, largest first."""
    total = sum(rank.count for rank in ranks)
    sums: dict[tuple[str, str], float] = {}

    def add(kind: str, label: str, time_s: float, count: int) -> None:
        sums[kind, label] = sums.get((kind, label), 0.0) + time_s * count / total

    for rank in ranks:
        add("compute", "", rank.compute_s, rank.count)
        for group in rank.groups:
            add("exposed", group.label, group.exposed_s, rank.count)
        add("bubble", "", rank.bubble_s, rank.count)
        add("imbalance", "", rank.imbalance_s, rank.count)
        add("idle", "", rank.idle_s, rank.count)
    sums["chance", ""] = chance_s
    parts = [JobPart(kind, label, time) for (kind, label), time in sums.items() if time > 0]
    return tuple(sorted(parts, key=lambda part: (part.kind != "compute", -part.time_s)))


def _limit(parts: Sequence[JobPart], step_s: float) -> Text:
    """The largest loss in a sentence."""
    losses = [part for part in parts if part.kind != "compute"]
    if step_s <= 0:
        return Text("")
    worst = losses[0] if losses else JobPart("idle", "", 0.0)
    share, time = Percent(worst.time_s / step_s), Seconds(worst.time_s)
    if worst.time_s < LEAST_LIMIT * step_s:
        computing = sum(part.time_s for part in parts if part.kind == "compute")
        part = Percent(computing / step_s)
        return Text(
            "Nothing between the ranks limits this job: they compute {part} of the step.", part=part
        )
    if worst.kind == "exposed":
        what = GROUP_WORDS.get(
            worst.label, Text("communication of group {group}", group=worst.label or "?")
        )
        return Text(
            "{what} limits scaling: it is exposed {share} of the step ({time}), with no "
            "computation beside it.",
            what=capital(what),
            share=share,
            time=time,
        )
    return _loss(worst.kind, share, time)


def _loss(kind: str, share: Percent, time: Seconds) -> Text:
    if kind == "bubble":
        return Text(
            "The pipeline's bubble limits scaling: stages wait for each other {share} of the step "
            "({time}).",
            share=share,
            time=time,
        )
    if kind == "imbalance":
        return Text(
            "Unequal ranks limit scaling: they wait for each other {share} of the step ({time}).",
            share=share,
            time=time,
        )
    if kind == "idle":
        return Text(
            "The host limits scaling: devices have nothing to run {share} of the step ({time}).",
            share=share,
            time=time,
        )
    return Text(
        "Chance limits scaling: the slowest of all ranks is waited for {share} of the step "
        "({time}).",
        share=share,
        time=time,
    )
