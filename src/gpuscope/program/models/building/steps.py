"""A training step and an inference step, as one usually writes them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gpuscope.program.models.building.optimizers import make_optimizer
from gpuscope.program.models.building.precision import attention_backend, autocast
from gpuscope.program.models.settings import Settings

Forward = Callable[[nn.Module], torch.Tensor]


def compiled(model: nn.Module, settings: Settings) -> nn.Module:
    """The model under `torch.compile` where the settings ask for it."""
    if not settings.compile:
        return model
    wrapped = torch.compile(model, mode=settings.compile)
    assert isinstance(wrapped, nn.Module)
    return wrapped


def replicated(model: nn.Module, settings: Settings) -> nn.Module:
    """The model as one of equal copies whose gradients are summed in the backward pass (DDP)."""
    if settings.replicas == 1:
        return model
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    if not dist.is_initialized():
        dist.init_process_group("nccl")
    return DistributedDataParallel(model.to(settings.device))


def recompute(blocks: Iterable[nn.Module]) -> None:
    """Keep only each block's inputs for the backward pass and run the block again there."""
    for block in blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)


def fed(
    step: Callable[[], torch.Tensor], batch: Sequence[torch.Tensor], settings: Settings
) -> Callable[[], torch.Tensor]:
    """The step, its batch copied from pinned memory of the host, its result copied back, if asked.

    Args:
        step: reads the tensors of `batch` anew each time.
        batch: on the device; they are written in place, as a step in a CUDA graph needs it.
        settings: with `from_host`, or nothing is copied.
    """
    if not settings.from_host:
        return step
    pinned = [tensor.cpu().pin_memory() for tensor in batch]

    def whole() -> torch.Tensor:
        for tensor, source in zip(batch, pinned, strict=True):
            tensor.copy_(source, non_blocking=True)
        return step().detach().cpu()

    return whole


def train_step(
    model: nn.Module, loss_of: Forward, settings: Settings, batch: Sequence[torch.Tensor] = ()
) -> Callable[[], torch.Tensor]:
    """One step of training.

    Args:
        model: in training mode, on the device.
        loss_of: runs the (perhaps compiled) model on the batch and gives the scalar loss.
        settings: optimizer, autocast, compilation, where the batch comes from.
        batch: tensors that `loss_of` reads and that a loader would give.

    Returns:
        A step that clears gradients, runs forward and backward, updates, and gives the loss.
    """
    optimizer = make_optimizer(settings.optimizer, model.parameters())
    network = compiled(replicated(model, settings), settings)
    scaler = None
    if settings.amp and settings.compute_dtype == "float16" and settings.device == "cuda":
        scaler = torch.amp.GradScaler(settings.device)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with autocast(settings), attention_backend(settings):
            loss = loss_of(network)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    def scaled_step() -> torch.Tensor:
        assert scaler is not None
        optimizer.zero_grad(set_to_none=True)
        with autocast(settings), attention_backend(settings):
            loss = loss_of(network)
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
        return loss

    return fed(step if scaler is None else scaled_step, batch, settings)


def inference_step(
    model: nn.Module, output_of: Forward, settings: Settings, batch: Sequence[torch.Tensor] = ()
) -> Callable[[], torch.Tensor]:
    """One forward pass without gradients.

    Args:
        model: in evaluation mode, on the device.
        output_of: runs the (perhaps compiled) model on the batch and gives what the user wants.
        settings: autocast, compilation, where the input comes from.
        batch: tensors that `output_of` reads and that a user would give.
    """
    network = compiled(model, settings)

    @torch.no_grad()
    def step() -> torch.Tensor:
        with autocast(settings), attention_backend(settings):
            return output_of(network)

    return fed(step, batch, settings)
