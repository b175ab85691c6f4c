"""Steps that the host paces: few tokens, many operators, cut, sharded, adapted and whole."""

from __future__ import annotations

from dataclasses import replace

import torch
from setup import init, tokens
from torch import nn
from transformer import Decoder, loss_of

from gpuscope.program.models import find
from gpuscope.program.models.networks.lora_linear import LoraLinear
from gpuscope.program.models.parallel.build import build_rank
from gpuscope.program.models.parallel.options import Job, Parallelism, Software


def _planned(model: str, blocks: int, plan: Parallelism, seq: int):
    init()
    size = find(model).size().deep(blocks)
    job = Job(size=replace(size, vocabulary=8192), plan=plan, software=Software(), tokens=seq)
    return build_rank(job)


def tensor_parallel():
    """What `plan` runs for tp 2: tokens shared between the layers, gradients clipped."""
    return _planned("llama-3.2-1b", 6, Parallelism(tp=2), 256)


def tensor_parallel_again():
    """The same with every block computed again, two micro-batches."""
    plan = Parallelism(tp=2, microbatches=2, recompute="full")
    return _planned("qwen3-1.7b", 4, plan, 256)


def fully_sharded():
    """FSDP2 over both ranks."""
    return _planned("llama-3.2-1b", 8, Parallelism(dp=2, fsdp="full"), 128)


def replicated():
    """Gradients summed over both ranks, the optimizer's states shared."""
    return _planned("gpt2-medium", 12, Parallelism(dp=2, fsdp="zero1"), 128)


def _decoder() -> Decoder:
    return Decoder(8, 1024, 16, 8, 4096, 8192).cuda().bfloat16()


def whole():
    """A rank by itself: bare PyTorch."""
    init()
    return _trained(_decoder(), amp=False)


def adapters():
    """A rank by itself: low-rank adapters beside every linear layer, under autocast."""
    init()
    model = _decoder()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for name, module in list(model.layers.named_modules()):
        if type(module) is nn.Linear:
            owner, _, last = name.rpartition(".")
            adapted = LoraLinear(module, 16, torch.float32)
            setattr(model.layers.get_submodule(owner), last, adapted)
    return _trained(model, amp=True)


def _trained(model: nn.Module, *, amp: bool):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    ids = tokens(1, 128, 8192)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=amp):
            loss = loss_of(model(ids), ids)
        loss.backward()
        optimizer.step()

    return step


STEPS = {
    each.__name__: each
    for each in (tensor_parallel, tensor_parallel_again, fully_sharded, replicated, whole, adapters)
}
