"""A fine-tuning step of a decoder from `transformers`: what is frozen, adapted, shared, updated.

The model's own code runs; what `peft` and `bitsandbytes` put in it are layers of this project that
keep and compute what theirs do, so that neither package is needed (tests hold them to `peft`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.program.models.building.adamw_8bit import AdamW8bit
from gpuscope.program.models.building.steps import Forward, replicated
from gpuscope.program.models.networks.lora_linear import LoraLinear
from gpuscope.program.models.networks.nf4_linear import NF4Linear
from gpuscope.program.models.settings import Settings
from gpuscope.program.models.tuning import TARGETS, FineTuning

Step = Callable[[], torch.Tensor]

_OUTPUT = ("lm_head", "embed_out", "output")
"""Names of output layers, which neither package touches."""


def tuning_step(model: nn.Module, loss_of: Forward, settings: Settings) -> Step:
    """One step of fine-tuning: all micro-batches forward and backward, then the update.

    Args:
        model: in training mode, on the device, in bfloat16.
        loss_of: runs the model on a micro-batch and gives the scalar loss.
        settings: with `tuning`.

    Raises:
        UnsupportedError: no layer of the model can get an adapter.
    """
    tuning = settings.tuning
    assert tuning is not None
    if tuning.method != "full":
        _adapt(model, tuning)
    network = _shared(model, tuning, settings)
    optimizer = _optimizer([p for p in network.parameters() if p.requires_grad], tuning)
    mixed = tuning.method != "full"

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        for number in range(tuning.microbatches):
            last = number == tuning.microbatches - 1
            with _synced(network, last):
                with torch.autocast("cuda", torch.bfloat16) if mixed else nullcontext():
                    loss = loss_of(network)
                    if tuning.microbatches > 1:
                        loss = loss / tuning.microbatches
                loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    return step


def _adapt(model: nn.Module, tuning: FineTuning) -> None:
    """Freeze everything, keep large weights in 4 bits if asked, and add the adapters."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    quantised, shared = tuning.method == "qlora", tuning.sharding == "full"
    everything = tuning.targets == TARGETS["all-linear"]
    found = 0
    for name, module in list(model.named_modules()):
        owner, _, last = name.rpartition(".")
        if type(module) is not nn.Linear or last in _OUTPUT:
            continue
        base: Any = module
        if quantised:
            base = NF4Linear(module, torch.bfloat16 if shared else torch.uint8)
        if everything or last.removesuffix("_proj") in tuning.targets:
            found += 1
            base = LoraLinear(base, tuning.rank, torch.bfloat16 if shared else torch.float32)
        setattr(model.get_submodule(owner), last, base)
    if quantised and not shared:
        _widen(model)
    if not found:
        raise UnsupportedError(
            Text("No layer of this model can get an adapter."),
            Text("It has no linear layers named: {names}.", names=", ".join(tuning.targets)),
            Text("Type: --method full"),
        )


def _widen(model: nn.Module) -> None:
    """What is left in 16 bits becomes float32 (`peft.prepare_model_for_kbit_training`)."""
    for parameter in model.parameters():
        if parameter.dtype == torch.bfloat16:
            parameter.data = parameter.data.float()


def _shared(model: nn.Module, tuning: FineTuning, settings: Settings) -> nn.Module:
    """The model as one rank of the job has it."""
    if tuning.devices == 1:
        return model
    if tuning.sharding == "none":
        return replicated(model, settings)
    import torch.distributed as dist
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    if not dist.is_initialized():
        dist.init_process_group("nccl")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    blocks: Any = next(m for m in model.modules() if isinstance(m, nn.ModuleList))
    for block in blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return model


def _synced(network: Any, last: bool) -> Any:
    """Gradients are summed over the ranks after the last micro-batch, where copies are whole."""
    if last or not hasattr(network, "no_sync"):
        return nullcontext()
    return network.no_sync()


def _optimizer(trained: list[nn.Parameter], tuning: FineTuning) -> torch.optim.Optimizer:
    if tuning.optimizer == "adamw":
        return torch.optim.AdamW(trained, lr=1e-4)
    return AdamW8bit(trained, paged=tuning.optimizer.startswith("paged"))
