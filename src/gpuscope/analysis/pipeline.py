"""A pipeline's schedule: which micro-batch each stage works on, and where it stands idle.

A pipeline is recognised by what it does: ranks send to and receive from single other ranks and run
forward and backward passes between; what begins its forward pass first begins its backward pass
last. (Ranks that exchange by sends and receives in step with each other, as experts do, are none.)
A rank's kernels of one phase are one block until the
phase changes or a send or receive comes between: that is a micro-batch. What a rank does not fill
with its own work, between the first forward and the last backward kernel of all ranks, is bubble;
waiting inside a receive is bubble, too.

With p equal stages and m micro-batches the bubble of GPipe's and of the 1F1B schedule is
(p - 1) / (m + p - 1) of the time (Huang et al., GPipe, 2019; Narayanan et al., Efficient
Large-Scale Language Model Training on GPU Clusters, 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.collective_calls import communication_calls
from gpuscope.analysis.cover import Cover
from gpuscope.analysis.window import COMMUNICATION, KERNEL
from gpuscope.document.quantities import Share
from gpuscope.document.text import Text, joined
from gpuscope.program.types import Op
from gpuscope.timeline.types import Ints, Timeline

Phase = Literal["forward", "backward"]

_PHASES: tuple[Phase, ...] = ("forward", "backward")

_SINGLE = frozenset({"send", "recv", "send_recv"})

NS = 1e-9


@dataclass(frozen=True, slots=True)
class PipelineBlock:
    """Work of one stage on one micro-batch.

    Attributes:
        phase: forward or backward.
        number: the how-manieth block of this phase on this rank, from 0.
        start_ns, end_ns: first to last kernel, on the timeline's clock.
    """

    phase: Phase
    number: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Stage:
    """One rank of the pipeline.

    Attributes:
        rank: its number.
        blocks: in time order.
        busy_s: union of its kernels, sends and receives left out.
        bubble_s: the rest of the schedule's length.
    """

    rank: int
    blocks: tuple[PipelineBlock, ...]
    busy_s: float
    bubble_s: float


@dataclass(frozen=True, slots=True)
class BubblePart:
    """A part of the bubble: its share of the schedule, and where it comes from."""

    share: float
    cause: Text


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The schedule of one step.

    Attributes:
        start_ns, end_ns: first forward to last backward kernel of all ranks.
        stages: by rank; replicas of a stage have each their own.
        depth: stages that follow each other, replicas counted once.
        micro_batches: forward blocks of the rank that has most.
        bubble_share: bubbles of all ranks over ranks times length.
        ideal_share: (p - 1) / (m + p - 1), of equal stages without interleaving.
        parts: what the bubble is made of; they add up to `bubble_share`. () where it is smaller
            than that of the formula, as with interleaving.
        said: the bubble and its parts in words.
    """

    start_ns: int
    end_ns: int
    stages: tuple[Stage, ...]
    depth: int
    micro_batches: int
    bubble_share: float
    ideal_share: float
    parts: tuple[BubblePart, ...]
    said: Text


def pipeline(timeline: Timeline) -> Pipeline | None:
    """Return the schedule of a step; None where the ranks form no pipeline."""
    calls = communication_calls(timeline)
    if len(calls.ranks) < 2:
        return None
    single = np.array([sort in _SINGLE for sort in calls.sorts], bool)[calls.sort]
    talking = {calls.ranks[at] for at in np.unique(calls.rank[single]).tolist()}
    low, high = _window(timeline)
    sends = np.array([sort == "send" for sort in calls.sorts], bool)[calls.sort]
    columns = _columns(timeline, calls.event[single], calls.event[sends], low, high)
    found = {rank: _blocks(columns, rank) for rank in sorted(talking)}
    found = {rank: blocks for rank, blocks in found.items() if _both(blocks)}
    depth = _depth(list(found.values()))
    if depth < 2:
        return None
    start = min(blocks[0].start_ns for blocks in found.values())
    end = max(block.end_ns for blocks in found.values() for block in blocks)
    stages = tuple(_stage(columns, rank, blocks, start, end) for rank, blocks in found.items())
    m = max(sum(block.phase == "forward" for block in stage.blocks) for stage in stages)
    share = sum(stage.bubble_s for stage in stages) / (len(stages) * (end - start) * NS)
    ideal = (depth - 1) / (m + depth - 1)
    parts = _parts(stages, depth, m, share, (end - start) * NS)
    said = _said(share, ideal, parts)
    return Pipeline(start, end, stages, depth, m, share, ideal, parts, said)


def _said(share: float, ideal: float, parts: tuple[BubblePart, ...]) -> Text:
    if not parts:
        return Text(
            "Bubble {share} of the schedule; equal stages would have {ideal} without "
            "interleaving: (p − 1) / (m + p − 1).",
            share=Share(share),
            ideal=Share(ideal),
        )
    named = (
        Text("{share} {cause}", share=Share(part.share), cause=part.cause)
        for part in parts
        if part.share >= _LEAST_SAID
    )
    return Text(
        "Bubble {share} of the schedule. Of it {parts}.",
        share=Share(share),
        parts=joined(named, "; "),
    )


def _parts(
    stages: tuple[Stage, ...], p: int, m: int, share: float, length_s: float
) -> tuple[BubblePart, ...]:
    """Take the bubble apart, by the lengths that the schedule would have without each cause.

    Stages of t_1 .. t_p seconds a microbatch take sum(t) + (m - 1) max(t) at most: with equal ones
    (m + p - 1) t, the formula.
    """
    ideal = (p - 1) / (m + p - 1)
    if share < ideal - _LEAST_PART:
        return ()
    busy = [stage.busy_s for stage in stages]
    mean = sum(busy) / len(busy)
    own_s = (mean * p + (m - 1) * max(busy)) / m
    first_s = _first_pass_s(stages, p)
    reached = (ideal, 1 - mean / own_s, 1 - mean / (own_s + first_s), share)
    shares, before = [], 0.0
    for each in reached:
        upto = min(max(each, before), share)
        shares.append(upto - before)
        before = upto
    return tuple(BubblePart(part, cause) for part, cause in zip(shares, _CAUSES, strict=True))


_LEAST_PART, _LEAST_SAID = 1e-6, 1e-3

_CAUSES = (
    Text("what equal stages would leave: (p − 1) / (m + p − 1)"),
    Text("stages that take longer than others"),
    Text(
        "the first pass, which each stage begins after the one before it: parameters that are "
        "gathered in it, casts, sends"
    ),
    Text("waiting for messages later on"),
)


def _first_pass_s(stages: tuple[Stage, ...], p: int) -> float:
    """What the first microbatch takes longer to the last stage than the turns of later ones."""
    ordered = sorted(stages, key=lambda stage: stage.blocks[0].start_ns)
    replicas = len(ordered) // p
    leading = ordered[: p * replicas : replicas]
    usual = sum(_turn_ns(stage) for stage in leading[:-1])
    passed = leading[-1].blocks[0].start_ns - leading[0].blocks[0].start_ns
    return max(0.0, passed - usual) * NS


def _turn_ns(stage: Stage) -> int:
    """From one forward pass to the next, where no other work comes between."""
    ahead = [block for block in stage.blocks if block.phase == "forward"]
    turns = [b.start_ns - a.start_ns for a, b in pairwise(ahead)]
    return min(turns, default=ahead[0].end_ns - ahead[0].start_ns)


def _both(blocks: tuple[PipelineBlock, ...]) -> bool:
    return {block.phase for block in blocks} == set(_PHASES)


def _depth(ranks: list[tuple[PipelineBlock, ...]]) -> int:
    """Stages that follow each other; 1 where the ranks run in step.

    A stage can begin only when the one before it has finished its first micro-batch, and the
    gradients come back the other way.
    """

    def first(blocks: tuple[PipelineBlock, ...], phase: Phase) -> PipelineBlock:
        return next(block for block in blocks if block.phase == phase)

    if len(ranks) < 2:
        return 1
    ordered = sorted(ranks, key=lambda blocks: first(blocks, "forward").start_ns)
    back = [first(blocks, "backward").start_ns for blocks in (ordered[0], ordered[-1])]
    if back[0] < first(ordered[-1], "backward").end_ns or back[0] <= back[1]:
        return 1
    depth, end = 1, first(ordered[0], "forward").end_ns
    for blocks in ordered[1:]:
        forward = first(blocks, "forward")
        if forward.start_ns >= end:
            depth, end = depth + 1, forward.end_ns
    return depth


def _window(timeline: Timeline) -> tuple[int, int]:
    """The step in the middle, over all ranks; everything where no step is marked."""
    by_rank: dict[int, list[tuple[int, int]]] = {}
    for step in timeline.steps:
        by_rank.setdefault(step.rank, []).append((step.start_ns, step.end_ns))
    if not by_rank:
        return 0, int(timeline.events.end_ns.max(initial=0))
    middle = min(map(len, by_rank.values())) // 2
    chosen = [steps[middle] for steps in by_rank.values()]
    return min(start for start, _ in chosen), max(end for _, end in chosen)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Device events of the window, sorted by start.

    Attributes:
        rank, start_ns, end_ns: of each.
        phase: index into `_PHASES`; -1 for other work.
        single: a send or receive.
        kernel: compute or a collective: the stage's own work.
        sent: a send.
    """

    rank: Ints
    start_ns: Ints
    end_ns: Ints
    phase: Ints
    single: npt.NDArray[np.bool_]
    kernel: npt.NDArray[np.bool_]
    sent: npt.NDArray[np.bool_]


def _columns(timeline: Timeline, single: Ints, sends: Ints, low: int, high: int) -> _Columns:
    events = timeline.events
    talk, sent = np.zeros(len(events), bool), np.zeros(len(events), bool)
    talk[single], sent[sends] = True, True
    inside = (events.kind <= COMMUNICATION) & (events.start_ns >= low) & (events.start_ns < high)
    rows = np.flatnonzero(inside)
    of_lane = np.array([lane.rank for lane in timeline.lanes], np.int64)
    phases = [op.phase if isinstance(op, Op) else "" for op in timeline.ops]
    code = np.array([_PHASES.index(p) if p in _PHASES else -1 for p in phases] + [-1], np.int64)
    phase = np.where(events.kind[rows] == KERNEL, code[events.op[rows]], -1)
    return _Columns(
        of_lane[events.lane[rows]],
        events.start_ns[rows],
        events.end_ns[rows],
        phase,
        talk[rows],
        ~talk[rows],
        sent[rows],
    )


def _blocks(columns: _Columns, rank: int) -> tuple[PipelineBlock, ...]:
    """Runs of one phase, cut where a send or receive begins or a receive ends between kernels.

    Nothing begins because a send has ended: that may fall between two kernels of one block.
    """
    own = columns.rank == rank
    rows = np.flatnonzero(own & (columns.phase >= 0))
    if len(rows) == 0:
        return ()
    talk = np.flatnonzero(own & columns.single)
    got = talk[~columns.sent[talk]]
    marks = np.sort(np.concatenate((columns.start_ns[talk], columns.end_ns[got])))
    ended = np.maximum.accumulate(columns.end_ns[rows])
    between = np.searchsorted(marks, columns.start_ns[rows][1:], side="right") > np.searchsorted(
        marks, ended[:-1], side="left"
    )
    cut = (np.diff(columns.phase[rows]) != 0) | between
    firsts = np.concatenate(([0], np.flatnonzero(cut) + 1))
    lasts = np.concatenate((firsts[1:], [len(rows)]))
    count = dict.fromkeys(_PHASES, 0)
    blocks = []
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        phase = _PHASES[int(columns.phase[rows[first]])]
        start = int(columns.start_ns[rows[first]])
        end = int(columns.end_ns[rows[first:last]].max())
        blocks.append(PipelineBlock(phase, count[phase], start, end))
        count[phase] += 1
    return tuple(blocks)


def _stage(
    columns: _Columns, rank: int, blocks: tuple[PipelineBlock, ...], start: int, end: int
) -> Stage:
    own = np.flatnonzero((columns.rank == rank) & columns.kernel)
    cover = Cover.of(columns.start_ns[own], columns.end_ns[own])
    busy = int(cover.within(np.array([start]), np.array([end]))[0])
    return Stage(rank, blocks, busy * NS, (end - start - busy) * NS)
