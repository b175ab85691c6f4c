"""What the ranks of a ready-made pipeline do: distinct stages captured once, all ranks composed."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.program.pipeline.blocks import StageBlocks, read_blocks
from gpuscope.program.pipeline.compose import RankPlace, compose
from gpuscope.program.pipeline.decoder_stages import cut_layers, shape_of, stage_build
from gpuscope.program.pipeline.orders import stage_of_rank
from gpuscope.program.types import ProcessGroup
from gpuscope.program.world import RankPrograms, World

if TYPE_CHECKING:
    from gpuscope.program.models.parallel.options import Job

__all__ = ["capture_stages", "rank_programs"]

_log = logging.getLogger(__name__)


def rank_programs(job: Job, *, local_size: int = 8, strict: bool = False,
                  name: str = "") -> RankPrograms:  # fmt: skip
    """Every distinct rank of a decoder's training job with pipeline stages.

    Equal stages are captured once: the first, the last, and one between of each number of layers.
    The ranks of one stage do the same, so each rank of the pipeline stands for those.

    Args:
        job: model, plan (`pp` stages, checked) and software.
        local_size: devices of a node.
        strict: refuse operators without a shape rule.
        name: what to call the programs.

    Raises:
        InvalidValueError: the model or the microbatches do not suit the pipeline.
        WorkloadError: the network's own code failed.
    """
    plan = job.plan
    shape = shape_of(plan)
    blocks = capture_stages(job, local_size=local_size, strict=strict)
    width = plan.world_size // plan.pp
    group = ProcessGroup("pipeline", "pp", tuple(range(0, plan.world_size, width)))
    programs = []
    for position in range(plan.pp):
        place = RankPlace(position * width, plan.world_size, group)
        held = {stage: blocks[stage] for stage in stage_of_rank(shape, position)}
        programs.append(compose(held, shape, place, name=name))
    members = tuple(
        tuple(range(position * width, (position + 1) * width)) for position in range(plan.pp)
    )
    return RankPrograms(tuple(programs), members)


def capture_stages(
    job: Job, *, local_size: int = 8, strict: bool = False
) -> dict[int, StageBlocks]:
    """The blocks of every stage of a job; equal stages share theirs.

    Args:
        job, local_size, strict: as `rank_programs` takes them.
    """
    from gpuscope.program.capture import capture

    plan, shape = job.plan, shape_of(job.plan)
    width = plan.world_size // plan.pp
    known: dict[object, StageBlocks] = {}
    out: dict[int, StageBlocks] = {}
    for stage, held in enumerate(cut_layers(job.size.layers, plan.stages)):
        experts = tuple(job.size.has_experts(layer) for layer in held.layers)
        key = (held.first, held.last, experts)
        if key not in known:
            rank = shape.rank_of(stage) * width
            world = World(plan.world_size, rank, local_size)
            program = capture(
                stage_build(job, stage), name=f"stage {stage}", task="train", strict=strict,
                samples=plan.microbatch * plan.dp, tokens=plan.microbatch * plan.dp * job.tokens,
                world=world,
            )  # fmt: skip
            _log.debug("stage %d: %d operators", stage, len(program.ops))
            known[key] = read_blocks(replace(program, rank=rank))
        out[stage] = known[key]
    return out
