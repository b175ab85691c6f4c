"""FSDP2 (`fully_shard`), alone, hybrid, and with tensor parallelism."""

from __future__ import annotations

import torch
from setup import init, tokens
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from transformer import Decoder, loss_of

BF16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


def _train(model: torch.nn.Module, batch: int, seq: int, vocab: int, clip: bool = False):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = tokens(batch, seq, vocab)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(ids), ids).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def _llama_1b() -> Decoder:
    return Decoder(16, 2048, 32, 8, 8192, 128256).cuda()


def _sharded(model: Decoder, **options: object) -> Decoder:
    for layer in model.layers:
        fully_shard(layer, mp_policy=BF16, **options)
    return fully_shard(model, mp_policy=BF16, **options)


def llama_1b():
    """The shapes of Llama-3.2-1B, resharded after forward (the default), gradients clipped."""
    init()
    return _train(_sharded(_llama_1b()), 2, 2048, 128256, clip=True)


def llama_1b_kept():
    """The same with parameters kept after forward."""
    init()
    return _train(_sharded(_llama_1b(), reshard_after_forward=False), 2, 2048, 128256)


def llama_1b_short():
    """Few tokens a rank: communication cannot hide."""
    init()
    return _train(_sharded(_llama_1b()), 1, 256, 128256)


def llama_8b():
    """The shapes of Llama-3.1-8B, one sequence of 4096, every block recomputed."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
        apply_activation_checkpointing,
    )
    from transformer import Block

    init()
    with torch.device("meta"):
        model = Decoder(32, 4096, 32, 8, 14336, 128256)
    apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, Block))
    for layer in model.layers:
        fully_shard(layer, mp_policy=BF16)
    fully_shard(model, mp_policy=BF16)
    model.to_empty(device="cuda")
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    return _train(model, 1, 4096, 128256)


def hybrid():
    """Sharded inside pairs, replicated between them (HSDP)."""
    _, world = init()
    mesh = init_device_mesh("cuda", (world // 2, 2), mesh_dim_names=("replicate", "shard"))
    return _train(_sharded(_llama_1b(), mesh=mesh), 2, 2048, 128256)


def _tensor_parallel(model: Decoder, mesh) -> Decoder:
    """Megatron's split with sequence parallelism, by PyTorch's own styles."""
    parallelize_module(
        model,
        mesh,
        {
            "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )
    for layer in model.layers:
        parallelize_module(
            layer,
            mesh,
            {
                "attention_norm": SequenceParallel(),
                "attention": PrepareModuleInput(
                    input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
                ),
                "attention.wq": ColwiseParallel(),
                "attention.wk": ColwiseParallel(),
                "attention.wv": ColwiseParallel(),
                "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
                "ffn_norm": SequenceParallel(),
                "feed_forward": PrepareModuleInput(
                    input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
                ),
                "feed_forward.w1": ColwiseParallel(),
                "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
                "feed_forward.w3": ColwiseParallel(),
            },
        )
    return model


def tensor_parallel():
    """Tensor and sequence parallel training over all ranks, bf16, 12 blocks of 4096."""
    _, world = init()
    mesh = init_device_mesh("cuda", (world,), mesh_dim_names=("tp",))
    model = Decoder(12, 4096, 32, 8, 14336, 32000).cuda().bfloat16()
    return _train(_tensor_parallel(model, mesh), 4, 2048, 32000)


def tensor_parallel_small():
    """The same where DTensor's host work sets the pace."""
    _, world = init()
    mesh = init_device_mesh("cuda", (world,), mesh_dim_names=("tp",))
    model = Decoder(12, 1024, 16, 8, 4096, 32000).cuda().bfloat16()
    return _train(_tensor_parallel(model, mesh), 1, 256, 32000)


def two_dimensions():
    """FSDP over pairs of tensor-parallel pairs: the shapes of Llama-3.2-3B."""
    _, world = init()
    mesh = init_device_mesh("cuda", (world // 2, 2), mesh_dim_names=("dp", "tp"))
    model = Decoder(28, 3072, 24, 8, 8192, 128256).cuda()
    _tensor_parallel(model, mesh["tp"])
    return _train(_sharded(model, mesh=mesh["dp"]), 2, 2048, 128256)


def tensor_parallel_inference():
    """One token for 16 sequences through tensor-parallel blocks (no cache), inference mode."""
    _, world = init()
    mesh = init_device_mesh("cuda", (world,), mesh_dim_names=("tp",))
    model = Decoder(16, 4096, 32, 8, 14336, 32000).cuda().bfloat16().eval()
    plan = {
        "attention.wq": ColwiseParallel(),
        "attention.wk": ColwiseParallel(),
        "attention.wv": ColwiseParallel(),
        "attention.wo": RowwiseParallel(),
        "feed_forward.w1": ColwiseParallel(),
        "feed_forward.w2": RowwiseParallel(),
        "feed_forward.w3": ColwiseParallel(),
    }
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
    ids = tokens(16, 64, 32000)

    def step():
        with torch.inference_mode():
            model(ids)

    return step
