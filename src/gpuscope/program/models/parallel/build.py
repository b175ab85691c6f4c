"""One rank's training step of a decoder under a plan: ordinary `torch.distributed` code.

Runs on real devices under `torchrun`, on a CPU with Gloo, and under a capture's fakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import loss_parallel

from gpuscope.program.models.building.optimizers import make_optimizer
from gpuscope.program.models.building.precision import torch_dtype, weights_on
from gpuscope.program.models.networks.cast_linear import use_cast_products
from gpuscope.program.models.networks.frozen_linear import freeze
from gpuscope.program.models.networks.transformer import Transformer
from gpuscope.program.models.parallel.clip import clip_gradients
from gpuscope.program.models.parallel.context import context_parallel_over
from gpuscope.program.models.parallel.data import apply_data_parallel, begin_microbatch
from gpuscope.program.models.parallel.experts import apply_expert_parallel
from gpuscope.program.models.parallel.mesh import Meshes, join_job, make_meshes
from gpuscope.program.models.parallel.options import Job
from gpuscope.program.models.parallel.recompute import apply_recompute
from gpuscope.program.models.parallel.tensor import apply_tensor_parallel

__all__ = ["build_rank", "make_part", "microbatch_context", "optimizer_of"]

Step = Callable[[], torch.Tensor]
Batch = Callable[[int], tuple[torch.Tensor, torch.Tensor]]


def make_part(
    job: Job,
    meshes: Meshes,
    device: torch.device,
    *,
    layers: range | None = None,
    first: bool = True,
    last: bool = True,
) -> Transformer:
    """The network, or a part of its layers, cut, sharded and placed as the plan says.

    Args:
        job: what to build.
        meshes: of the job.
        device: of this rank.
        layers, first, last: as `Transformer` takes them.
    """
    plan = job.plan
    with weights_on(str(device), job.weight_dtype):
        model = Transformer(
            job.size, job.software, job.tokens, layers=layers, first=first, last=last
        )
    if meshes.spread is not None:
        apply_expert_parallel(model, meshes)
    cast = job.software.matmul != "compute"
    if job.software.adapter_rank:
        compute = torch_dtype(job.compute_dtype)
        freeze(model, model.layers, job.software.adapter_rank, compute, cast)
    elif cast:
        use_cast_products(model.layers)
    if meshes.tp is not None:
        apply_tensor_parallel(model, meshes.tp, sequence=plan.sequence_parallel)
    apply_recompute(model.layers, plan.recompute)
    if job.software.compile:
        for block in model.layers:
            block.compile(mode=job.software.compile)
    if not plan.one_rank or job.weight_dtype != job.compute_dtype:
        apply_data_parallel(model, meshes, plan, torch_dtype(job.compute_dtype))
    return model.train()


def optimizer_of(model: nn.Module, name: str) -> torch.optim.Optimizer:
    """The optimizer, with one group of parameters for each mesh that they are spread over."""
    groups: dict[Any, list[nn.Parameter]] = {}
    for parameter in filter(lambda each: each.requires_grad, model.parameters()):
        mesh = parameter.device_mesh if isinstance(parameter, DTensor) else None
        groups.setdefault(mesh, []).append(parameter)
    chosen: Any = [{"params": members} for members in groups.values()]
    return make_optimizer(name, chosen)


def build_rank(job: Job, batch: Batch | None = None, *, brief: bool = False) -> Step:
    """Make the model, data and optimizer of this rank, and give its step.

    Args:
        job: a plan without pipeline stages.
        batch: gives the token numbers and the tokens that come after each, (microbatch, tokens)
            both, of a microbatch by its number; random ones, the same in each, by default.
        brief: the first step works on the last microbatch alone: enough where it only makes what
            later ones find, optimizer states and buffers, as under a capture.

    Returns:
        A step: all microbatches forward and backward, then the update; gives the mean loss.
    """
    plan = job.plan
    device = join_job(job.device)
    meshes = make_meshes(plan, job.device)
    model = make_part(job, meshes, device)
    optimizer = optimizer_of(model, job.software.optimizer)
    batch = batch or _random_batch(job, device)
    numbers = range(plan.microbatches)
    first = [numbers[-1:]] if brief else []

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        losses = []
        for number in first.pop() if first else numbers:
            begin_microbatch(model, plan, last=number == plan.microbatches - 1)
            tokens, labels = batch(number)
            with microbatch_context(job, meshes, model, [tokens, labels]):
                loss = model(tokens, labels) / plan.microbatches
                loss.backward()
            losses.append(loss.detach())
        if job.software.clip:
            clip_gradients(model.parameters())
        optimizer.step()
        return losses[0] if plan.microbatches == 1 else torch.stack(losses).sum()

    return step


def _random_batch(job: Job, device: torch.device) -> Batch:
    shape = (job.plan.microbatch, job.tokens)
    tokens, labels = (torch.randint(0, job.size.vocabulary, shape, device=device) for _ in range(2))
    return lambda number: (tokens, labels)


@contextmanager
def microbatch_context(
    job: Job, meshes: Meshes, model: Transformer, data: list[torch.Tensor]
) -> Iterator[None]:
    """What holds around the forward and backward pass of a microbatch.

    Args:
        job, meshes, model: as made.
        data: tensors with tokens in their second dimension.
    """
    with ExitStack() as stack:
        if meshes.tp is not None:
            stack.enter_context(loss_parallel())
        if meshes.cp is not None:
            stack.enter_context(
                context_parallel_over(meshes.cp, data, model.along, job.plan.rotation)
            )
        yield
