"""Every distinct rank of a job costed anew; a long pipeline's stages folded once for all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from gpuscope.cost.anew import Made, costed_anew
from gpuscope.cost.engine import cost_program
from gpuscope.cost.identity import Same
from gpuscope.cost.types import CostedOp, CostedProgram, HostCost
from gpuscope.hardware import Calibration, Cluster, Device
from gpuscope.program.pipeline.blocks import StageBlocks, read_blocks
from gpuscope.program.pipeline.bundles import BEGIN, PART
from gpuscope.program.types import Op, Program
from gpuscope.program.world import RankPrograms
from gpuscope.timeline.pipeline_fold import FoldedStage, composed_ranks, fold_stage, starts_of

__all__ = ["ranks_anew"]

KEPT = 8
"""Stages that a process remembers folded."""


def ranks_anew(
    programs: RankPrograms,
    device: Device,
    constants: Calibration,
    cluster: Cluster | None = None,
    *,
    strict: bool = False,
) -> list[Made]:
    """Cost every distinct rank of a job, as `costed_anew` does; long pipelines by their blocks.

    Args:
        programs: as captured.
        device, constants, cluster, strict: as `costed_anew` takes them.

    Raises:
        UnsupportedError, CaptureError: as there.
    """

    def anew(program: Program) -> Made:
        return costed_anew(program, device, constants, cluster, strict=strict)

    pipeline = programs.pipeline
    if pipeline is None:
        return [anew(program) for program in programs.programs]
    names: dict[int, str] = {}
    for blocks in pipeline.stages.values():
        names.setdefault(id(blocks), f"stage{len(names)}")

    def folded(blocks: StageBlocks, limited: bool) -> FoldedStage:
        asked = Same(blocks), Same(device), Same(constants), cluster, strict, names[id(blocks)]
        return _folded(*asked)[limited]

    def cost(program: Program) -> CostedProgram:  # of a composed rank: its transfers
        return cost_program(program, device, constants, strict=strict, cluster=cluster)

    stages = {id(b): folded(b, limited=True) for b in pipeline.stages.values()}
    alone = {n: folded(b, limited=False) for n, b in pipeline.stages.items()}
    by_name = {names[id(pipeline.stages[n])]: stage for n, stage in alone.items()}
    ranks = composed_ranks(pipeline, stages, cost)
    return [Made(each.program, _unordered(each, by_name), each) for each in ranks]


@lru_cache(maxsize=KEPT)
def _folded(
    blocks: Same[StageBlocks],
    device: Same[Device],
    constants: Same[Calibration],
    cluster: Cluster | None,
    strict: bool,
    name: str,
) -> tuple[FoldedStage, FoldedStage]:
    """A stage folded at the full clock, and under the board's power limit.

    A planner asks for the same stages with several numbers of microbatches.
    """
    made = costed_anew(blocks.value.program, device.value, constants.value, cluster, strict=strict)
    read = read_blocks(made.program)

    def cost(program: Program) -> CostedProgram:
        return cost_program(program, device.value, constants.value, strict=strict, cluster=cluster)

    starts_s = starts_of(read, cost)
    alone = fold_stage(read, made.alone, name, starts_s)
    if made.costed is made.alone:
        return alone, alone
    return alone, fold_stage(read, made.costed, name, starts_s)


def _unordered(rank: CostedProgram, alone: Mapping[str, FoldedStage]) -> CostedProgram:
    """The rank's work at the full clock, each block once with how often it runs: for its energy,
    to which the order is nothing.

    Args:
        rank: composed, under the power limit.
        alone: its stages at the full clock, by name.
    """
    often, begun = Counter[str](), dict[str, bool]()
    items = list[CostedOp]()
    for item in rank.ops:
        label = str(item.op.args.get(PART, ""))
        if not label:
            items.append(item)
        elif item.op.name == BEGIN:
            often[label] += 1
        begun.setdefault(item.op.phase, bool(label))
    starts_s = next(iter(alone.values())).starts_s
    for name, stage in alone.items():
        for (kind, variant), (first, end) in stage.blocks.spans.items():
            times = often[f"{name}:{kind}:{variant}:begin"]
            for op in stage.blocks.program.ops[first : end if times else first]:
                cost = stage.costs.get(str(op.args.get(PART, "")))
                if cost is not None:
                    items.append(replace(cost, op=replace(op, repeat=times)))
    # A phase that a transfer begins has its start with that.
    once_s = sum(seconds for phase, seconds in starts_s.items() if begun.get(phase))
    items.append(CostedOp(Op(0, ""), (), HostCost(once_s, 0.0, 0.0)))
    return replace(rank, ops=tuple(items))
