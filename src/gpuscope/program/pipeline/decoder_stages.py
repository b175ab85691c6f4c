"""The stages of a ready-made decoder: how its layers are cut, and the build of each stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.program.pipeline.orders import SPLIT, PipelineShape

if TYPE_CHECKING:
    from gpuscope.program.models.parallel.options import Job, Parallelism

__all__ = ["StageLayers", "cut_layers", "shape_of", "stage_build"]


@dataclass(frozen=True, slots=True)
class StageLayers:
    """What one stage holds.

    Attributes:
        layers: blocks, by number.
        first: has the embedding.
        last: has the last norm, the output layer and the loss.
    """

    layers: range
    first: bool
    last: bool


def cut_layers(layers: int, stages: int, cut: tuple[int, ...] = ()) -> tuple[StageLayers, ...]:
    """Cut a model into stages.

    Even where the layers divide (Megatron-LM's way). Else embedding and output layer count as a
    layer each, and what is left over goes to the first stages, as in torchtitan's
    `pipeline_llm`: 126 layers on 16 stages are 7 on both ends and 8 between, as Llama 3 405B was
    trained (arXiv:2407.21783, section 3.3.2). With stages of one layer the first then has the
    embedding alone, and the last the output layer and the loss.

    Args:
        layers: of the model.
        stages: virtual ones included.
        cut: blocks of each stage instead, checked.

    Raises:
        InvalidValueError: fewer layers than stages, embedding and output layer counted.
    """
    if layers + 2 < stages or layers < 1 or (layers < stages and layers + 2 != stages):
        raise InvalidValueError(
            Text(
                "{layers} layers cannot be cut into {stages} stages.", layers=layers, stages=stages
            ),
            Text("Every stage of the pipeline holds one layer at least."),
            Text("Use --pp {layers} or less, or fewer virtual stages.", layers=layers),
        )
    counts = [layers // stages] * stages
    if layers % stages:
        base, more = divmod(layers + 2, stages)
        counts = [base + (stage < more) for stage in range(stages)]
        counts[0] -= 1
        counts[-1] -= 1
        if min(counts) < 1 and layers >= stages:
            counts = [layers // stages + (s < layers % stages) for s in range(stages)]
    counts = list(cut) or counts
    begins = [sum(counts[:stage]) for stage in range(stages)]
    return tuple(
        StageLayers(range(begin, begin + count), stage == 0, stage == stages - 1)
        for stage, (begin, count) in enumerate(zip(begins, counts, strict=True))
    )


def shape_of(plan: Parallelism) -> PipelineShape:
    """The pipeline of a plan.

    Raises:
        InvalidValueError: microbatches or virtual stages that the schedule does not allow.
    """
    return PipelineShape(plan.schedule, plan.pp, plan.microbatches, plan.virtual)


def stage_build(
    job: Job, stage: int, layers: int | None = None
) -> Callable[[], Callable[[], object]]:
    """The build of one stage, for a capture as a rank that holds it.

    Args:
        job: a plan with pipeline stages.
        stage: which of them.
        layers: hold so many blocks instead (the first ones of the stage).
    """
    held = cut_layers(job.size.layers, job.plan.stages, job.plan.cut)[stage]
    if layers is not None:
        held = replace(held, layers=range(held.layers.start, held.layers.start + layers))

    def build() -> Callable[[], object]:
        from gpuscope.program.models.parallel.build import make_part, optimizer_of
        from gpuscope.program.models.parallel.clip import clip_gradients
        from gpuscope.program.models.parallel.mesh import join_job, make_meshes
        from gpuscope.program.pipeline.stage_step import StageParts, stage_step

        device = join_job(job.device)
        meshes = make_meshes(job.plan, job.device)
        model = make_part(job, meshes, device, layers=held.layers, first=held.first, last=held.last)
        optimizer = optimizer_of(model, job.software.optimizer)
        data = _Data(job, held, device)
        group = None if meshes.pp is None else meshes.pp.get_group()

        def finish() -> None:
            if job.software.clip:
                clip_gradients(model.parameters(), stages=group)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        return stage_step(
            StageParts(
                model,
                stage,
                job.plan.stages,
                data.inputs,
                data.outputs,
                finish,
                loss=_own_loss(job) if held.last else None,
                group=group,
                split=job.plan.schedule in SPLIT,
                scale=False,
                more=data.more,
                around=lambda: data.around(meshes, model),
            )
        )

    return build


class _Data:
    """Inputs of one microbatch: tokens on the first stage, hidden states on any other."""

    def __init__(self, job: Job, held: StageLayers, device: Any) -> None:
        import torch

        self.job = job
        whole = (job.plan.microbatch, job.tokens)
        self.tokens: list[Any] = []
        self.more: dict[str, Any] = {}
        hidden = self._hidden(device)
        if held.first:
            tokens = torch.randint(0, job.size.vocabulary, whole, device=device)
            self.tokens.append(tokens)
            self.inputs: tuple[Any, ...] = (tokens,)
        else:
            self.inputs = (hidden,)
        if held.last:
            self.more["labels"] = torch.randint(0, job.size.vocabulary, whole, device=device)
            self.tokens.append(self.more["labels"])
        self.outputs = () if held.last else (hidden,)

    def _hidden(self, device: Any) -> Any:
        """What goes from stage to stage: this rank's own tokens."""
        import torch

        plan, job = self.job.plan, self.job
        own = job.tokens // plan.cp // (plan.tp if plan.splits_tokens else 1)
        dtype = getattr(torch, job.compute_dtype)
        shape = (plan.microbatch, own, job.size.hidden)
        return torch.empty(shape, dtype=dtype, device=device, requires_grad=True)

    def around(self, meshes: Any, model: Any) -> Any:
        from gpuscope.program.models.parallel.build import microbatch_context

        return microbatch_context(self.job, meshes, model, self.tokens)


def _own_loss(job: Job) -> Callable[[Any], Any]:
    """The last part gives the loss itself; microbatches share the step's weight."""
    return lambda output: output / job.plan.microbatches
