"""A training script of PyTorch's FSDP2, complete: `torchrun --nproc-per-node 8 train.py`.

It does what was simulated: blocks, embedding and output sharded as the plan says, parameters in
float32, products in bfloat16, AdamW, recomputation. Its model and its random tokens stand in for
the user's own; it prints what a step takes and holds, so that it can be held against the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.planning.types import Candidate, Plan, Question
from gpuscope.planning.writers.registry import beyond_data, refuse_more, writer
from gpuscope.planning.writers.torchrun import torchrun

_SHARDED = ("full", "hybrid", "zero2", "zero1")

_SCRIPT = '''\
"""{model}: {words}. Start it on {cluster}:

{start}
"""

import functools
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import {policies}fully_shard
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts{more}

from gpuscope.program.models import find
from gpuscope.program.models.networks.transformer import Transformer
from gpuscope.program.models.networks.transformer_parts import rotation
from gpuscope.program.models.parallel.options import Software

SEQ, MICROBATCH, MICROBATCHES, STEPS = {seq}, {microbatch}, {microbatches}, 12
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KEPT = [
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
]


SIZE = find("{model}").size()


def make_model():
    """Your own model goes here: `layers`, `embedding`, `norm`, `output`; without memory yet."""
    with torch.device("meta"):
        return Transformer(SIZE, Software(), SEQ)


def fill(model):
    """Memory for what this rank holds; random weights stand in for yours."""
    model.to_empty(device={home})
    for name, parameter in model.named_parameters():
        shard = parameter.detach().to_local()
        if parameter.ndim > 1:
            shard.normal_(std=0.02)
        else:
            shard.fill_(0.0 if name.endswith("bias") else 1.0)
    with torch.device(DEVICE):
        if model.rotates:
            model.cos, model.sin = rotation(SIZE, SEQ)
        else:
            model.places = torch.arange(SEQ)


def batch():
    """Your own data go here: tokens, and the token that comes after each."""
    shape = (MICROBATCH, SEQ)
    return tuple(torch.randint(0, SIZE.vocabulary, shape, device=DEVICE) for _ in range(2))


def recomputed(block, how):
    """The block with less kept for its backward pass."""
    more = {{}}
    if how == "selective":
        more["context_fn"] = functools.partial(create_selective_checkpoint_contexts, KEPT)
    block.forward = functools.partial(
        checkpoint, block.forward, use_reentrant=False, preserve_rng_state=False, **more
    )


def sharded(model):
    """Every block is gathered, and its gradients are summed, by itself."""
    mesh = {mesh}
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    options = {{"mesh": mesh, "mp_policy": policy, "reshard_after_forward": {reshard}{offload}}}
    for block in model.layers:
        fully_shard(block, **options)
    if model.output.weight is not model.embedding.weight:
        fully_shard(model.embedding, **options)
        fully_shard([model.norm, model.output], **{{**options, "reshard_after_forward": False}})
    return fully_shard(model, **options)


def step(model, optimizer, data):
    """All micro-batches forward and backward, then the update."""
    optimizer.zero_grad(set_to_none=True)
    for number in range(MICROBATCHES):
{sync}        loss = model(*data) / MICROBATCHES
        loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    """A few steps, each timed to the end of its work on the device."""
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo")
    if DEVICE == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = make_model()
{recompute}    model = sharded(model).train()
    fill(model)
    optimizer = {optimizer}
    data = batch()
    for number in range(STEPS):
        begun = time.perf_counter()
        loss = step(model, optimizer, data).item()
        peak = 0
        if DEVICE == "cuda":
            torch.cuda.synchronize()
            peak = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        if dist.get_rank() == 0:
            took = time.perf_counter() - begun
            print(f"step {{number}}: loss {{loss:.4f}}, {{took * 1e3:.2f}} ms, peak {{peak}} bytes")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
'''

_LATE = """\
        last = number == MICROBATCHES - 1
        model.set_requires_gradient_sync(last)
        model.set_reshard_after_backward(last)
"""
"""Gradients are summed over micro-batches first, and parameters are kept until then (ZeRO-1)."""

_ADAMW = "torch.optim.AdamW(model.parameters(), fused=True)"
_LIGHT = "\nfrom torchao.optim import AdamW8bit  # pip install torchao"

_RECOMPUTE = """\
    for block in model.layers:
        recomputed(block, "{how}")
"""


_CAN: Mapping[str, Sequence[str]] = {"states": ("8bit",), "offload": ("cpu",)}
"""What it can start beside the layout, by dimension."""


def _refuse(question: Question, candidate: Candidate) -> None:
    refuse_more("The script of FSDP2", candidate, _CAN)
    split, size = candidate.plan, question.size
    more = beyond_data(split)
    if more is None and split.dp == 1:
        more = Text("one rank alone")
    if more is None and split.fsdp not in _SHARDED:
        more = f"fsdp {split.fsdp}"
    if more is None and size.experts is not None:
        more = "experts"
    if more is not None:
        raise UnsupportedError(
            Text("The script of FSDP2 cannot do {name}.", name=more),
            Text("It shards the blocks of a dense decoder over the ranks that share its batch."),
            Text("Write the torchrun line instead: --for torchrun"),
        )


@writer("fsdp2", _refuse)
def fsdp2(plan: Plan) -> str:
    """The script's text.

    Raises:
        UnsupportedError: the plan splits more than data, shards nothing, or the model has experts.
    """
    best = plan.best.candidate
    split = best.plan
    mesh = "init_device_mesh(DEVICE, (dist.get_world_size(),))"
    if split.fsdp == "hybrid":
        mesh = f"init_device_mesh(DEVICE, ({split.dp // split.shard}, {split.shard}))"
    away = ("offload", "cpu") in best.more
    light = ("states", "8bit") in best.more
    late = split.fsdp == "zero1" and split.microbatches > 1
    again = _RECOMPUTE.format(how=split.recompute) if split.recompute != "none" else ""
    return _SCRIPT.format(
        model=plan.question.model,
        words=best.words,
        cluster=best.cluster.name,
        start=torchrun(plan),
        seq=plan.question.seq,
        microbatch=split.microbatch,
        microbatches=split.microbatches,
        mesh=mesh,
        reshard=split.fsdp in ("full", "hybrid"),
        sync=_LATE if late else "",
        recompute=again,
        home='"cpu"' if away else "DEVICE",
        offload=', "offload_policy": CPUOffloadPolicy()' if away else "",
        policies=("CPUOffloadPolicy, " if away else "") + "MixedPrecisionPolicy, ",
        optimizer="AdamW8bit(model.parameters())" if light else _ADAMW,
        more=_LIGHT if light else "",
    )
