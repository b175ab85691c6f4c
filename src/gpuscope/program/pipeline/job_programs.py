"""What the ranks of a ready-made pipeline do: distinct stages captured once, all ranks composed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gpuscope.program.fold_declared import EqualLayers
from gpuscope.program.fold_layers import NotFoldableError
from gpuscope.program.models.parallel.software import as_software
from gpuscope.program.pipeline.blocks import LATER, StageBlocks, read_blocks
from gpuscope.program.pipeline.bundles import Part, bundled
from gpuscope.program.pipeline.compose import RankPlace, compose
from gpuscope.program.pipeline.decoder_stages import cut_layers, shape_of, stage_build
from gpuscope.program.pipeline.gathers import gathers_first
from gpuscope.program.pipeline.orders import SPLIT, PipelineShape, stage_of_rank
from gpuscope.program.pipeline.script import Sharing
from gpuscope.program.types import ProcessGroup, Program
from gpuscope.program.world import RankPrograms, World

if TYPE_CHECKING:
    from gpuscope.program.models.parallel.options import Job

__all__ = ["PipelineBlocks", "capture_pipeline", "capture_stages", "rank_programs", "ranks_of"]

_log = logging.getLogger(__name__)

FEW_LAYERS = 10
"""Layers of a stage up to which it is captured whole: folding captures seven and looks at more."""

KEPT = 4
"""Jobs whose stages are remembered by a process."""

LONG = 60_000
"""Operators of all distinct ranks together from which on passes are folded: costing so many takes
about two seconds."""


@dataclass(frozen=True, slots=True)
class PipelineBlocks:
    """The captured stages of a pipeline, and how its ranks run them.

    Attributes:
        shape: schedule, ranks, virtual stages, microbatches.
        stages: blocks by stage; equal stages share theirs.
        world_size: ranks of the job; those of one stage follow each other.
        name: what to call its programs.
        samples, tokens: work of a step of the whole job.
        assumptions: sentences for the user.
        sharing: when replicas gather parameters and sum gradients.
    """

    shape: PipelineShape
    stages: Mapping[int, StageBlocks]
    world_size: int
    name: str = ""
    samples: int | None = None
    tokens: int | None = None
    assumptions: tuple[str, ...] = ()
    sharing: Sharing = "in_turn"

    @property
    def width(self) -> int:
        """Ranks that hold the same stages."""
        return self.world_size // self.shape.ranks

    @property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """For each rank of the pipeline the ranks of the job that do the same."""
        width = self.width
        return tuple(
            tuple(range(position * width, (position + 1) * width))
            for position in range(self.shape.ranks)
        )

    @property
    def operators(self) -> int:
        """Operators of all ranks of the pipeline together."""
        return sum(
            sum(end - first for (_, which), (first, end) in blocks.spans.items() if which == LATER)
            * self.shape.microbatches
            for blocks in self.stages.values()
        )

    def brief(self) -> PipelineBlocks:
        """The same pipeline with one operator a pass; memory and transfers are kept."""
        known: dict[int, StageBlocks] = {}
        for blocks in self.stages.values():
            if id(blocks) not in known:
                known[id(blocks)] = bundled(
                    blocks,
                    {
                        key: (Part("gpuscope::pass", f"{key[0]}:{key[1]}", end - first),)
                        for key, (first, end) in blocks.spans.items()
                    },
                )
        return replace(self, stages={n: known[id(b)] for n, b in self.stages.items()})

    def program(self, position: int) -> Program:
        """The step of one rank of the pipeline."""
        group = ProcessGroup("pipeline", "pp", tuple(range(0, self.world_size, self.width)))
        place = RankPlace(position * self.width, self.world_size, group)
        held = {stage: self.stages[stage] for stage in stage_of_rank(self.shape, position)}
        program = compose(held, self.shape, place, name=self.name, sharing=self.sharing)
        return replace(
            program,
            samples=self.samples,
            tokens=self.tokens,
            assumptions=(*self.assumptions, *program.assumptions),
        )

    def programs(self) -> RankPrograms:
        """The step of every rank of the pipeline, and which ranks of the job it stands for."""
        every = tuple(self.program(position) for position in range(self.shape.ranks))
        return RankPrograms(every, self.members)


def rank_programs(
    job: Job, *, local_size: int = 8, strict: bool = False, name: str = ""
) -> RankPrograms:
    """Every distinct rank of a decoder's training job with pipeline stages.

    Operator by operator, but for jobs of many microbatches and deep stages: there each pass is one
    operator, and `RankPrograms.pipeline` has what is in it.

    Args:
        job, local_size, strict, name: as `capture_pipeline` takes them.

    Raises:
        InvalidValueError, WorkloadError: as `capture_pipeline`.
    """
    return ranks_of(capture_pipeline(job, local_size=local_size, strict=strict, name=name))


def ranks_of(pipeline: PipelineBlocks, first: int = 0) -> RankPrograms:
    """The step of every rank of a pipeline, as `rank_programs` gives it.

    Args:
        pipeline: of the whole step.
        first: only so many of its microbatches, their passes folded where those of the whole step
            are: a step of many follows from two such; 0: all.
    """
    folded = pipeline.operators > LONG
    if first:
        pipeline = replace(pipeline, shape=replace(pipeline.shape, microbatches=first))
    if not folded:
        return pipeline.programs()
    return replace(pipeline.brief().programs(), pipeline=pipeline)


def capture_pipeline(
    job: Job,
    *,
    local_size: int = 8,
    strict: bool = False,
    name: str = "",
    assumptions: tuple[str, ...] = (),
) -> PipelineBlocks:
    """Capture the distinct stages of a decoder's training job.

    Equal stages are captured once: the first, the last, and one between of each number of layers.

    Args:
        job: model, plan (`pp` stages, checked) and software.
        local_size: devices of a node.
        strict: refuse operators without a shape rule.
        name: what to call the programs.
        assumptions: sentences for the user.

    Raises:
        InvalidValueError: the model or the microbatches do not suit the pipeline.
        WorkloadError: the network's own code failed.
    """
    plan = job.plan
    return PipelineBlocks(
        shape_of(plan),
        capture_stages(job, local_size=local_size, strict=strict),
        plan.world_size,
        name,
        plan.global_batch,
        plan.global_batch * job.tokens,
        assumptions,
        _sharing(job),
    )


def capture_stages(
    job: Job, *, local_size: int = 8, strict: bool = False
) -> dict[int, StageBlocks]:
    """The blocks of every stage of a job; equal stages share theirs.

    Args:
        job, local_size, strict: as `rank_programs` takes them.
    """
    plan = job.plan
    shape_of(plan)
    schedule = plan.schedule if plan.schedule in SPLIT or plan.virtual > 1 else "1f1b"
    plan = replace(plan, schedule=schedule, microbatches=plan.pp * plan.virtual)
    return dict(_captured(replace(job, plan=plan), local_size, strict))


@lru_cache(maxsize=KEPT)
def _captured(job: Job, local_size: int, strict: bool) -> dict[int, StageBlocks]:
    """The same, of a job with the usual schedule and number of microbatches: a stage knows neither.

    A planner asks for one job with several numbers of them.
    """
    plan = job.plan
    # All stages as rank 0: groups move with the rank when a step is composed.
    world, learnt = World(plan.world_size, 0, local_size), _Learnt()
    known: dict[object, StageBlocks] = {}
    out: dict[int, StageBlocks] = {}
    for stage, held in enumerate(cut_layers(job.size.layers, plan.stages, plan.cut)):
        kinds = tuple(job.size.kind(layer) for layer in held.layers)
        key = (held.first, held.last, kinds)
        if key not in known:
            program = _capture_stage(job, stage, held.layers, world, strict, learnt)
            program = as_software(program, job.software, plan.reduce_dtype)
            if _sharing(job) != "in_turn":
                program = gathers_first(program)
            _log.debug("stage %d: %d operators", stage, len(program.ops))
            known[key] = read_blocks(
                replace(
                    program,
                    name=f"stage {stage}",
                    samples=plan.microbatch * plan.dp,
                    tokens=plan.microbatch * plan.dp * job.tokens,
                )
            )
        out[stage] = known[key]
    return out


def _sharing(job: Job) -> Sharing:
    """As the software does it; what is gathered in every pass anew is gathered in turn."""
    return job.software.sharing if job.plan.fsdp in ("zero1", "none") else "in_turn"


def _capture_stage(
    job: Job, stage: int, held: range, world: World, strict: bool, learnt: _Learnt
) -> Program:
    """One stage, its layers folded where it has many."""
    from gpuscope.program.capture import capture
    from gpuscope.program.fold import capture_folded

    build = stage_build(job, stage)
    experts = [job.size.has_experts(layer) for layer in held]
    dense = experts.index(True) if True in experts else 0
    if len(held) <= FEW_LAYERS:
        return capture(build, task="train", strict=strict, world=world, observer=learnt)
    try:
        return capture_folded(
            build,
            lambda layers: stage_build(job, stage, layers),
            task="train",
            strict=strict,
            world=world,
            declared=None if job.size.pattern else EqualLayers(len(held), dense, job.size.period),
        )
    except NotFoldableError as reason:
        _log.debug("stage %d is captured whole: %s", stage, reason)
    return capture(build, task="train", strict=strict, world=world, observer=learnt)


class _Learnt:
    """Lets each capture know what those before learnt of operators and shapes."""

    def __init__(self) -> None:
        self._replay: Any = None

    def build_begins(self, recorder: Any) -> None:
        """Share what is known."""
        if self._replay is not None:
            recorder.replay.share(self._replay)
        self._replay = recorder.replay

    def step_begins(self, recorder: Any) -> None:
        """Nothing to do."""

    def step_ends(self, recorder: Any) -> None:
        """Nothing to do."""
