"""The blocks of a pipeline's stages timed once, and ranks that are made of them.

A rank of a deep pipeline runs the same few blocks (forward, backward, ...) hundreds of times. Each
block is walked once by itself, and becomes a handful of tasks with the same effect on the clocks of
host and device. With one stream a block is a linear map of these two clocks in max-plus algebra:

    device' = max(device + D, host + L),    host' = host + H,

D: device time when the host is far ahead; L: from the host's begin to the device's end on an idle
device; H: the host's own time. The tasks reproduce D, L and H, so ranks made of them keep the time
that they would have operator by operator, as long as blocks do not overlap each other on the device
(collectives of one block beside kernels of the next are put at the block's end).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpuscope.cost.types import CostedOp, CostedProgram, HostCost, Kernel, larger_limiter
from gpuscope.document.text import Text
from gpuscope.program.pipeline.blocks import MARK, BlockKey, StageBlocks
from gpuscope.program.pipeline.bundles import BEGIN, END, PART, Part, bundled
from gpuscope.program.pipeline.job_programs import PipelineBlocks
from gpuscope.program.types import Op, Program
from gpuscope.timeline.intervals import merge, subtraction
from gpuscope.timeline.schedule import Schedule, build_schedule
from gpuscope.timeline.walk import Floats, Walk, walk_steps

if TYPE_CHECKING:
    from gpuscope.timeline.types import Ints

__all__ = ["FoldedStage", "composed_ranks", "cost_folded", "fold_ranks", "fold_stage", "starts_of"]

_TICK_S = 1e-12
"""Resolution in which lengths of overlapping tasks are summed up."""


@dataclass(frozen=True, slots=True)
class FoldedStage:
    """A stage whose blocks are a few operators each, with what these cost.

    Attributes:
        blocks: for `gpuscope.program.pipeline.compose`.
        costs: kernels and host time of its operators, by their label.
        costed: the stage as it was costed, operator by operator.
        starts_s: what the host pays once a step, when it comes to each phase; not in `costs`.
    """

    blocks: StageBlocks
    costs: Mapping[str, CostedOp]
    costed: CostedProgram
    starts_s: Mapping[str, float]


def fold_ranks(
    pipeline: PipelineBlocks, cost: Callable[[Program], CostedProgram]
) -> tuple[CostedProgram, ...]:
    """Every distinct rank of a pipeline, costed, its blocks folded.

    The programs for `simulate_memory` are the results' own (`CostedProgram.program`); the ranks
    that each stands for are `pipeline.members`.

    Args:
        pipeline: the captured stages.
        cost: costs a program for the device (`cost_program`, limits of power included).
    """
    folded: dict[int, FoldedStage] = {}
    for blocks in pipeline.stages.values():
        if id(blocks) not in folded:
            name, starts_s = f"stage{len(folded)}", starts_of(blocks, cost)
            folded[id(blocks)] = fold_stage(blocks, cost(blocks.program), name, starts_s)
    return composed_ranks(pipeline, folded, cost)


def composed_ranks(
    pipeline: PipelineBlocks,
    folded: Mapping[int, FoldedStage],
    cost: Callable[[Program], CostedProgram],
) -> tuple[CostedProgram, ...]:
    """Every rank of a pipeline, composed of folded stages and costed.

    Args:
        pipeline: the captured stages.
        folded: by the identity of a stage's blocks.
        cost: costs what ranks send and receive.
    """
    from gpuscope.program.capture import without_garbage_collection

    with without_garbage_collection():
        few = replace(
            pipeline, stages={n: folded[id(b)].blocks for n, b in pipeline.stages.items()}
        )
        stages = tuple(folded.values())
        return tuple(cost_folded(cost(program), stages) for program in few.programs().programs)


def starts_of(blocks: StageBlocks, cost: Callable[[Program], CostedProgram]) -> dict[str, float]:
    """What the host pays when a step comes to each phase (`HostModel`): the first of two equal
    operators costs that much more than the second."""
    found: dict[str, float] = {}
    for phase in ("forward", "backward", "optimizer"):
        ops = tuple(Op(index, "aten::view", view=True, phase=phase) for index in range(3))
        pair = cost(replace(blocks.program, ops=(replace(ops[0], phase="other"), *ops[1:]))).ops
        found[phase] = max(0.0, pair[1].host.before_s - pair[2].host.before_s)
    return found


def fold_stage(
    blocks: StageBlocks,
    costed: CostedProgram,
    name: str = "",
    starts_s: Mapping[str, float] | None = None,
) -> FoldedStage:
    """Time each block of a stage, and make it few operators.

    Args:
        blocks: the captured stage.
        costed: its program, costed.
        name: what to call it where labels of several stages meet.
        starts_s: as `FoldedStage`; a rank of several stages pays them once.
    """
    starts = starts_s or {}
    parts: dict[BlockKey, list[Part]] = {}
    costs: dict[str, CostedOp] = {}
    without = _without_starts(costed, starts)
    for key, (first, end) in blocks.spans.items():
        timed = _time_block(_slice(without, first, end))
        parts[key] = _parts(timed, key, name, costs)
    few = _labelled(bundled(blocks, parts), name)
    return FoldedStage(few, costs, costed, starts)


def _without_starts(costed: CostedProgram, starts_s: Mapping[str, float]) -> CostedProgram:
    items, seen = list(costed.ops), set()
    for index, item in enumerate(items):
        phase = item.op.phase
        if phase not in seen:
            seen.add(phase)
            before_s = max(0.0, item.host.before_s - starts_s.get(phase, 0.0))
            items[index] = replace(item, host=replace(item.host, before_s=before_s))
    return replace(costed, ops=tuple(items))


def _slice(costed: CostedProgram, first: int, end: int) -> CostedProgram:
    """One block as a program of its own; waits for what came before it are dropped."""
    kept = [i for i in range(first, end) if costed.ops[i].op.name != MARK]
    numbers = {old: new for new, old in enumerate(kept)}
    items = []
    for old in kept:
        item = costed.ops[old]
        waits = tuple(numbers[w] for w in item.op.waits if w in numbers)
        items.append(replace(item, op=replace(item.op, index=numbers[old], waits=waits)))
    program = replace(costed.program, ops=tuple(item.op for item in items), storages=())
    return replace(costed, program=program, ops=tuple(items))


@dataclass(frozen=True, slots=True)
class _Timed:
    """A block's times (see the module) and its kernels.

    Attributes:
        device_s, lead_s, host_s: D; L less D and the launch latency; H.
        kernels: all kernels of the block, with the group of the operator that launched each, and
            whether it is work done again.
        stretch: what kernels' times are multiplied by, so that they fill the computing part of D.
        exposed_s: part of D in which a group's communication runs and no kernel does.
        beside_s: the rest of each group's communication.
    """

    device_s: float
    lead_s: float
    host_s: float
    kernels: tuple[tuple[Kernel, int, bool], ...]
    stretch: float
    exposed_s: Mapping[int, float]
    beside_s: Mapping[int, float]


def _time_block(block: CostedProgram) -> _Timed:
    schedule = build_schedule(block)
    kernels = tuple(
        (kernel, _group(block, item) if kernel.lane == "link" else -1, item.op.recomputed)
        for item in block.ops
        for kernel in item.kernels * item.op.repeat
    )
    if not kernels:
        return _Timed(0.0, 0.0, schedule.host_step_s, (), 1.0, {}, {})
    latency = block.launch_latency_s
    ahead = walk_steps(schedule, latency, 1, host_scale=0.0)
    alone = walk_steps(schedule, latency, 1)
    device_s = float(ahead.end_s.max()) - latency
    lead_s = max(0.0, float(alone.end_s.max()) - latency - device_s)
    exposed, beside = _communication(schedule, ahead, block)
    working = sum(kernel.duration_s for kernel, _, _ in kernels if kernel.lane != "link")
    kinds = len({(kernel.kind, again) for kernel, _, again in kernels if kernel.lane != "link"})
    gaps_s = block.kernel_gap_s * max(0, kinds - 1)
    computing_s = max(0.0, device_s - sum(exposed.values()) - gaps_s)
    return _Timed(
        device_s,
        lead_s,
        schedule.host_step_s,
        kernels,
        computing_s / working if working else 1.0,
        exposed,
        beside,
    )


def _communication(
    schedule: Schedule, walk: Walk, block: CostedProgram
) -> tuple[dict[int, float], dict[int, float]]:
    """Seconds of each group's communication that no kernel covers, and the rest."""
    rows = np.flatnonzero(schedule.kernel >= 0)
    start, end = _ticks(walk.start_s[rows]), _ticks(walk.end_s[rows])
    group = np.array(
        [
            _group(block, block.ops[op]) if schedule.kernels[k].lane == "link" else -2
            for op, k in zip(schedule.op[rows], schedule.kernel[rows], strict=True)
        ],
        np.int64,
    )
    covered = merge(start[group == -2], end[group == -2])
    exposed: dict[int, float] = {}
    beside: dict[int, float] = {}
    for number in sorted({int(g) for g in group} - {-2}):
        own = merge(start[group == number], end[group == number])
        bare = subtraction(own, covered)
        exposed[number] = _length_s(bare)
        beside[number] = _length_s(own) - exposed[number]
        covered = merge(np.concatenate((covered[0], own[0])), np.concatenate((covered[1], own[1])))
    return exposed, beside


def _group(block: CostedProgram, item: CostedOp) -> int:
    """The process group of a collective; -1 for one among stages, whose parts may differ."""
    group = item.op.group
    return -1 if group >= 0 and block.program.groups[group].label == "pp" else group


def _ticks(seconds: Floats) -> Ints:
    return np.rint(seconds / _TICK_S).astype(np.int64)


def _length_s(intervals: tuple[Ints, Ints]) -> float:
    return float((intervals[1] - intervals[0]).sum()) * _TICK_S


def _parts(timed: _Timed, key: BlockKey, name: str, costs: dict[str, CostedOp]) -> list[Part]:
    """The operators of a block, their costs noted: communication beside, kinds, exposed."""
    found: list[tuple[str, int, bool, Kernel, int, bool]] = []
    for group, seconds in timed.beside_s.items():
        whole = [k for k, g, _ in timed.kernels if g == group and k.lane == "link"]
        if seconds > 0:
            found.append(("collective", group, True, _sum(whole, seconds), len(whole), False))
    sorts = dict.fromkeys((str(k.kind), a) for k, _, a in timed.kernels if k.lane != "link")
    for kind, again in sorts:
        whole = [
            k for k, _, a in timed.kernels if (k.kind, a) == (kind, again) and k.lane != "link"
        ]
        seconds = timed.stretch * sum(k.duration_s for k in whole)
        found.append((kind, -1, False, _sum(whole, seconds), len(whole), again))
    for group, seconds in timed.exposed_s.items():
        whole = [k for k, g, _ in timed.kernels if g == group and k.lane == "link"]
        if seconds > 0:
            found.append(("collective", group, True, _sum(whole, seconds), len(whole), False))
    parts = []
    for n, (kind, group, waited, kernel, calls, again) in enumerate(found):
        label = f"{name}:{key[0]}:{key[1]}:{n}"
        parts.append(Part(f"gpuscope::{kind}_part", label, calls, group, waited, again))
        costs[label] = _costed(parts[-1], kernel)
    begin, end = (f"{name}:{key[0]}:{key[1]}:{edge}" for edge in ("begin", "end"))
    costs[begin] = _costed(None, None, timed.lead_s)
    costs[end] = _costed(None, None, max(0.0, timed.host_s - timed.lead_s))
    return parts


def _costed(part: Part | None, kernel: Kernel | None, host_s: float = 0.0) -> CostedOp:
    """A cost without its operator, which `cost_folded` puts in."""
    return CostedOp(
        Op(0, part.name if part else ""),
        () if kernel is None else (kernel,),
        HostCost(host_s, 0.0, 0.0),
    )


def _sum(kernels: Sequence[Kernel], seconds: float) -> Kernel:
    """Kernels of one kind, one after the other, as one that takes `seconds`."""
    whole = sum(k.duration_s for k in kernels)
    scale = seconds / whole if whole else 0.0
    longest = max(kernels, key=lambda k: k.duration_s)
    compute_s, memory_s = (sum(getattr(k, n) for k in kernels) for n in ("compute_s", "memory_s"))
    return replace(
        longest,
        limiter=larger_limiter(longest.limiter, longest.kind, compute_s, memory_s),
        name=f"{longest.kind} x {len(kernels)}",
        op=0,
        duration_s=seconds,
        low_s=scale * sum(k.low_s for k in kernels),
        high_s=scale * sum(k.high_s for k in kernels),
        flops=sum(k.flops for k in kernels),
        read_bytes=sum(k.read_bytes for k in kernels),
        written_bytes=sum(k.written_bytes for k in kernels),
        least_bytes=sum(k.least_bytes for k in kernels),
        tile=(),
        waves=0.0,
        occupancy=None,
        compute_s=compute_s,
        memory_s=memory_s,
        sent_bytes=sum(k.sent_bytes for k in kernels),
        moving_s=min(seconds, scale * sum(k.moving_s for k in kernels)),
        stream=0,
        launches=sum(k.launches for k in kernels),
        note=Text("{launches} launches of one block, timed together", launches=len(kernels)),
    )


def _labelled(blocks: StageBlocks, name: str) -> StageBlocks:
    """The begin and the end of each block get their labels, too."""
    edges = {BEGIN: "begin", END: "end"}
    ops = list(blocks.program.ops)
    for (kind, variant), (first, end) in blocks.spans.items():
        for index in range(first, end):
            edge = edges.get(ops[index].name)
            if edge is not None:
                args = {**ops[index].args, PART: f"{name}:{kind}:{variant}:{edge}"}
                ops[index] = replace(ops[index], args=args)
    return replace(blocks, program=replace(blocks.program, ops=tuple(ops)))


def cost_folded(transfers: CostedProgram, stages: Sequence[FoldedStage]) -> CostedProgram:
    """Put the blocks' costs into a composed rank.

    Args:
        transfers: the rank's program costed as any other (`cost_program`): its sends and receives
            are; the parts of blocks launch nothing yet.
        stages: the folded stages that it was composed of.
    """
    costs = {label: cost for stage in stages for label, cost in stage.costs.items()}
    starts_s = stages[0].starts_s
    items, seen = [], set()
    for item in transfers.ops:
        first = item.op.phase not in seen
        seen.add(item.op.phase)
        cost = costs.get(str(item.op.args.get(PART, "")))
        if cost is None:
            items.append(item)
            continue
        kernels = tuple(replace(k, op=item.op.index) for k in cost.kernels)
        host = cost.host
        if first:
            host = replace(host, before_s=host.before_s + starts_s.get(item.op.phase, 0.0))
        items.append(CostedOp(item.op, kernels, host))
    base = stages[0].costed
    assumptions = dict.fromkeys((*transfers.assumptions, *_told(stages)))
    return replace(
        transfers,
        ops=tuple(items),
        assumptions=tuple(assumptions),
        host_spread=base.host_spread,
        host_faster=base.host_faster,
        device_spread=base.device_spread,
        common_spread=base.common_spread,
    )


def _told(stages: Sequence[FoldedStage]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(sentence for stage in stages for sentence in stage.costed.assumptions)
    )
