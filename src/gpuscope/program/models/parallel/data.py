"""Data parallelism: what the ranks that hold the same layers share, with PyTorch's FSDP2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard

from gpuscope.program.models.networks.transformer import Transformer
from gpuscope.program.models.networks.transformer_experts import MixtureOfExperts
from gpuscope.program.models.parallel.mesh import Meshes
from gpuscope.program.models.parallel.options import Parallelism


def apply_data_parallel(
    model: Transformer, meshes: Meshes, plan: Parallelism, compute: torch.dtype
) -> None:
    """Shard or replicate parameters over the data ranks, block by block.

    Every block is one unit whose parameters are gathered, and whose gradients are summed,
    together; embedding and output layer are units of their own unless they are one tensor.

    Args:
        model: on its device, cut by tensor and expert parallelism.
        meshes: of the job.
        plan: what is shared.
        compute: dtype that parameters are gathered in and computed with.
    """
    options = _options(meshes, plan, compute)
    frozen = {each for each in model.parameters() if not each.requires_grad}
    if frozen:  # every rank keeps them whole
        options["ignored_params"] = frozen
    wrap = _replicate if plan.fsdp == "none" else fully_shard
    for block in model.layers:
        if isinstance(block.feed, MixtureOfExperts) and meshes.experts is not None:
            own: dict[str, Any] = {"mesh": meshes.experts}
            if "shard_placement_fn" in options:
                own["shard_placement_fn"] = _placement(meshes.experts.size(-1))
            experts = wrap(block.feed.experts, **{**options, **own})
            experts.set_gradient_divide_factor(float(plan.dp * plan.cp))
        wrap(block, **options)
    tied = (
        model.embedding is not None
        and model.output is not None
        and (model.output.weight is model.embedding.weight)
    )
    if not tied and not frozen:
        if model.embedding is not None:
            wrap(model.embedding, **options)
        if model.output is not None and model.norm is not None and plan.fsdp != "none":
            ends = {**options, "reshard_after_forward": False}  # gathered again at once otherwise
            wrap([model.norm, model.output], **ends)
        elif model.output is not None:
            wrap(model.output, **options)
    wrap(model, **options)
    _prefetch(model, plan)


def _options(meshes: Meshes, plan: Parallelism, compute: torch.dtype) -> dict[str, Any]:
    policy = MixedPrecisionPolicy(
        param_dtype=compute, reduce_dtype=getattr(torch, plan.reduce_dtype)
    )
    options: dict[str, Any] = {"mesh": meshes.data, "mp_policy": policy}
    if plan.fsdp != "none":
        if plan.offload:
            options["offload_policy"] = CPUOffloadPolicy()
        options["reshard_after_forward"] = plan.fsdp in ("full", "hybrid")
        options["shard_placement_fn"] = _placement(meshes.data.size(-1))
    return options


def _placement(ranks: int) -> Callable[[torch.nn.Parameter], Shard | None]:
    """Along which dimension ranks share a parameter: the first, or the next if that has too few.

    FSDP2 pads a first dimension to a row for each rank, so that 8 experts on 256 ranks would be
    gathered as 256; torchtitan shares the second dimension of experts then
    (`torchtitan/models/llama4/infra/parallelize.py`), and so does this.
    """

    def along(parameter: torch.nn.Parameter) -> Shard | None:
        here = parameter.to_local() if isinstance(parameter, DTensor) else parameter
        shape = here.shape
        stacked = len(shape) > 2 and shape[0] < ranks
        return Shard(1) if stacked and shape[1] % ranks == 0 else None

    return along


def _replicate(module: Any, **options: Any) -> Any:
    """DDP written with FSDP2's machinery: parameters stay whole, gradients are all-reduced."""
    from torch.distributed._composable.replicate_with_fsdp import replicate

    return replicate(module, **options)


def _prefetch(model: Transformer, plan: Parallelism) -> None:
    if plan.prefetch < 2 or plan.fsdp == "none":
        return
    blocks: list[Any] = list(model.layers)
    for at, block in enumerate(blocks):
        ahead, behind = blocks[at + 1 : at + 1 + plan.prefetch], blocks[:at][-plan.prefetch :]
        if ahead:
            block.set_modules_to_forward_prefetch(ahead)
        if behind:
            block.set_modules_to_backward_prefetch(behind[::-1])


def begin_microbatch(model: torch.nn.Module, plan: Parallelism, *, last: bool) -> None:
    """Say whether the backward pass to come ends the step, and so sums gradients over ranks.

    With "zero1" and "none" gradients are summed over microbatches first (Megatron's way); with
    the others every microbatch's gradients are reduced, so that they never exist whole.
    """
    if not isinstance(model, FSDPModule) or plan.microbatches == 1:
        return
    # `set_is_last_backward(False)` is not called: FSDP2 would then prefetch, at the end of the next
    # backward pass, what came last in the forward pass before, for nobody.
    model.set_requires_gradient_sync(last or plan.sums_each)
    if plan.fsdp == "zero1":
        model.set_reshard_after_backward(last)
