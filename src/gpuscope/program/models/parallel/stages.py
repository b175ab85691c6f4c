"""Parts of a pipeline: what one stage of a plan is, for `gpuscope.program.pipeline`."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gpuscope.program.models.building.precision import torch_dtype
from gpuscope.program.models.parallel.build import make_part, microbatch_context, optimizer_of
from gpuscope.program.models.parallel.checks import split_layers
from gpuscope.program.models.parallel.mesh import join_job, make_meshes
from gpuscope.program.models.parallel.options import Job, Parallelism
from gpuscope.program.pipeline.stage_step import StageParts, stage_step

__all__ = ["build_stage", "rank_of_stage"]


def rank_of_stage(plan: Parallelism, stage: int) -> int:
    """The first rank that holds a stage; virtual stages go round the ranks."""
    return stage % plan.pp * (plan.world_size // plan.pp)


def build_stage(job: Job, stage: int) -> Callable[[], None]:
    """One stage's work on two microbatches, for a capture at `rank_of_stage`.

    The stage holds the blocks that `split_layers` gives it, the first one the embedding, the last
    one the norm, the output layer and the loss.

    Args:
        job: with a plan of several stages.
        stage: its number, virtual stages included.

    Returns:
        What `gpuscope.program.pipeline.stage_step.stage_step` gives.
    """
    plan = job.plan
    device = join_job(job.device)
    meshes = make_meshes(plan, job.device)
    layers = split_layers(job.size.layers, plan.stages)[stage]
    first, last = stage == 0, stage == plan.stages - 1
    model = make_part(job, meshes, device, layers=layers, first=first, last=last)
    optimizer = optimizer_of(model, job.software.optimizer)
    data = []
    shape = (plan.microbatch, job.tokens)
    if last:
        model.labels = torch.randint(0, job.size.vocabulary, shape, device=device)
        data.append(model.labels)
    if first:
        inputs = torch.randint(0, job.size.vocabulary, shape, device=device)
        data.append(inputs)
    else:
        inputs = _activation(job, device)

    def finish() -> None:
        if job.software.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    assert meshes.pp is not None
    with microbatch_context(job, meshes, model, data):
        step = stage_step(
            StageParts(
                module=model, stage=stage, stages=plan.stages, inputs=(inputs,),
                outputs=() if last else (_activation(job, device),), finish=finish,
                loss=(lambda loss: loss) if last else None, group=meshes.pp.get_group(),
                split=plan.schedule == "zb",
            )
        )  # fmt: skip

    def whole() -> None:
        with microbatch_context(job, meshes, model, data):
            step()

    return whole


def _activation(job: Job, device: torch.device) -> torch.Tensor:
    """What one stage sends to the next for a microbatch: this rank's tokens."""
    plan = job.plan
    tokens = job.tokens // plan.cp // (plan.tp if plan.splits_tokens else 1)
    return torch.empty(
        plan.microbatch, tokens, job.size.hidden, device=device,
        dtype=torch_dtype(job.compute_dtype), requires_grad=True,
    )  # fmt: skip

