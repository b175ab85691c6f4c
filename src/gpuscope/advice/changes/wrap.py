"""A model of one process, shared by the processes of a job: DDP, or FSDP2.

Code that runs one copy on each device learns nothing from the others. DDP sums the gradients of all
copies in the backward pass; FSDP2 (`fully_shard`) also spreads parameters, gradients and optimizer
states over them, each repeated block gathered by itself (PyTorch documentation). It is another
recipe: a step learns from as many times the samples.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.transforms.repeated_blocks import repeated_blocks
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit, Numerics
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["WRAPS", "Wrap"]

WRAPS = ("ddp", "fsdp", "fsdp-kept")


class Wrap(Change):
    """Share each model that is trained with the other processes of the job.

    Args:
        name: one of `WRAPS`: gradients summed; everything spread; everything spread, parameters
            kept whole from the forward to the backward pass.
        title: what it does.
    """

    group = "distributed"
    numerics: Numerics = "recipe"
    rank = 85  # blocks are compiled and recomputed inside of what is shared

    def __init__(self, name: str, title: Text) -> None:
        self.name, self.title = name, title
        self.excludes = frozenset(WRAPS) - {name}

    def fits(self, case: ChangeCase) -> Fit:
        """It needs several devices, training, and code that does not share by itself."""
        if case.program is None or case.seen is None:
            why = Text("The code is not known, only its timeline.")
            return Fit(False, why, relevant=False)
        if case.cluster.n_devices < 2:
            return Fit(False, Text("There is one device."), relevant=False)
        if not case.training:
            return Fit(False, Text("There is no backward pass."), relevant=False)
        if case.program.groups or case.seen.wraps:
            return Fit(False, Text("The code shares its model already."), relevant=False)
        return Fit(True, Text("Each device trains a copy of its own."))

    def install(self, live: Live) -> None:
        """Join the job, and wrap each root module before its optimizer is made."""
        if self.name == "ddp":
            _replicate(live)
            return
        reshard = self.name == "fsdp"
        live.on_model(functools.partial(_shard, reshard=reshard))

    def risk(self, case: ChangeCase) -> Text | None:
        """Each process must have data of its own."""
        return Text("Each process must read other samples: a DistributedSampler, or its rank.")


def _join() -> None:
    """Join the job that torchrun started, unless that is done."""
    import torch
    import torch.distributed as dist

    if dist.is_initialized():
        return
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if cuda else "gloo")


def _trained(model: Any) -> bool:
    return any(parameter.requires_grad for parameter in model.parameters())


def _shard(model: Any, *, reshard: bool) -> None:
    if not _trained(model):
        return
    _join()
    from torch.distributed.fsdp import fully_shard

    for block in repeated_blocks(model):
        if block is not model:  # a list of lists: the model is of its blocks' class
            fully_shard(block, reshard_after_forward=reshard)
    fully_shard(model, reshard_after_forward=reshard)


def _replicate(live: Live) -> None:
    from torch.nn.parallel import DistributedDataParallel

    wrappers: dict[int, Any] = {}

    def edit(model: Any) -> None:
        if _trained(model) and not isinstance(model, DistributedDataParallel):
            _join()
            wrappers[id(model)] = DistributedDataParallel(model)

    def call(model: Any, inner: Callable[..., Any]) -> Callable[..., Any]:
        """The user's code calls the model; the wrapper calls it again, and then it is itself."""
        wrapper, inside = wrappers.get(id(model)), False
        if wrapper is None:
            return inner

        @functools.wraps(inner)
        def called(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside:
                return inner(*args, **kwargs)
            inside = True
            try:
                return wrapper(*args, **kwargs)
            finally:
                inside = False

        return called

    live.on_model(edit)
    live.on_call(call)


for _name, _title in (
    ("ddp", Text("gradients summed over all devices (DDP)")),
    ("fsdp", Text("everything spread over all devices (FSDP2)")),
    ("fsdp-kept", Text("everything spread, parameters kept within a step (FSDP2)")),
):
    register(Wrap(_name, _title))
