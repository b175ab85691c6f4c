"""Folded programs of distributed code equal captured ones, waits, groups and buffers included."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import pytest
from program_equality import differences

from gpuscope.program.capture import capture
from gpuscope.program.fold import capture_folded
from gpuscope.program.types import Program
from gpuscope.program.world import World
from sweeps import sweep

WIDTH, LAYERS = 32, 10
JOB = World(8, 5)

Build = Callable[[], Callable[[], object]]


def joined() -> Any:
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return torch.device("cuda", int(os.environ["LOCAL_RANK"]))


def network(layers: int, device: Any, wrap: Callable[[Any], Any] | None = None) -> Any:
    import torch
    import torch.nn as nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            return x + self.down(torch.relu(self.up(self.norm(x))))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            blocks = [Block() for _ in range(layers)]
            self.embedding, self.head = nn.Embedding(64, WIDTH), nn.Linear(WIDTH, 64)
            self.layers = nn.ModuleList([wrap(b) for b in blocks] if wrap else blocks)

        def forward(self, x: Any) -> Any:
            h = self.embedding(x)
            for layer in self.layers:
                h = layer(h)
            return self.head(h)

    return Network().to(device)


def shard(model: Any, **options: Any) -> None:
    from torch.distributed.fsdp import fully_shard

    for layer in model.layers:
        fully_shard(layer, **options)
    fully_shard(model, **options)


def mesh(*sizes: int) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cuda", sizes, mesh_dim_names=("dp", "tp")[: len(sizes)])


def split(model: Any, tensor_parallel: Any) -> None:
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    for layer in model.layers:
        parallelize_module(
            layer, tensor_parallel, {"up": ColwiseParallel(), "down": RowwiseParallel()}
        )


def fsdp(layers: int) -> Any:
    model = network(layers, joined())
    shard(model)
    return model


def kept(layers: int) -> Any:
    model = network(layers, joined())
    shard(model, reshard_after_forward=False)
    return model


def hybrid(layers: int) -> Any:
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy

    model = network(layers, joined())
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    shard(model, mesh=mesh(2, 4), mp_policy=policy)
    return model


def checkpointed(layers: int) -> Any:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    model = network(layers, joined(), checkpoint_wrapper)
    shard(model)
    return model


def tensor_parallel(layers: int) -> Any:
    model = network(layers, joined())
    split(model, mesh(8))
    return model


def both(layers: int) -> Any:
    model = network(layers, joined())
    found = mesh(4, 2)
    split(model, found["tp"])
    shard(model, mesh=found["dp"])
    return model


def built(make: Callable[[int], Any], layers: int, foreach: bool) -> Build:
    def build() -> Callable[[], object]:
        import torch

        model = make(layers)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach)
        tokens = torch.randint(0, 64, (4, 16), device="cuda")

        def step() -> None:
            model(tokens).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    return build


@pytest.mark.parametrize(
    "make", sweep([fsdp, kept, hybrid, checkpointed, tensor_parallel, both], checkpointed, fsdp)
)
def test_a_folded_program_equals_a_captured_one(make: Callable[[int], Any]) -> None:
    at_depth = functools.partial(built, make, foreach=make is not tensor_parallel)
    whole = capture(at_depth(LAYERS), world=JOB)
    folded = capture_folded(at_depth(LAYERS), at_depth, task="train", world=JOB)
    assert differences(folded, whole) == []
    assert (folded.rank, folded.world_size) == (5, 8)


def test_waits_point_back(every: Program) -> None:
    for op in every.ops:
        assert all(-len(every.ops) <= wait < op.index for wait in op.waits)


@pytest.fixture(scope="module")
def every() -> Program:
    at_depth = functools.partial(built, fsdp, foreach=True)
    return capture_folded(at_depth(40), at_depth, task="train", world=JOB)


def test_depth_multiplies_the_collectives(every: Program) -> None:
    names = [op.name for op in every.ops if op.group >= 0]
    assert names.count("c10d::_allgather_base_") == 2 * 40 + 1
    assert names.count("c10d::_reduce_scatter_base_") == 40 + 1
