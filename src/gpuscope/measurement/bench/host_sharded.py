"""Times small made-up programs of `torch.distributed`: its Python sets the pace of many real ones.

A decoder cut over two ranks by DTensor (with and without tokens shared between the layers), the
same sharded by FSDP2, and whole. One process plays rank 0 of a group that moves nothing, so that
what a collective costs (NCCL's own call) is not in it: what is left is Python and the C++ below it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gpuscope.measurement.bench.host_timing import HostTimer

GROUP = "sharded"
BLOCKS = 4
_WIDTH, _HEADS = 64, 4


class Cut(nn.Module):
    """A decoder block that works on as many heads and features as its layers give it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(_WIDTH), nn.RMSNorm(_WIDTH)
        self.q, self.k, self.v = (nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(3))
        self.o = nn.Linear(_WIDTH, _WIDTH, bias=False)
        self.up, self.down = nn.Linear(_WIDTH, 128, bias=False), nn.Linear(128, _WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        h = self.norm1(x)
        q, k, v = (
            part(h).unflatten(-1, (-1, _WIDTH // _HEADS)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        done: torch.Tensor = x + self.down(functional.silu(self.up(self.norm2(x))))
        return done


class Whole(nn.Module):
    """A stack of `Cut` blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Cut() for _ in range(BLOCKS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run them all."""
        for block in self.blocks:
            x = block(x)
        return x


def _whole(device: str) -> nn.Module:
    return Whole().to(device, torch.bfloat16)


def _cut(device: str, *, tokens: bool) -> nn.Module:
    """Over two ranks; with `tokens` each has half of them between the layers."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    model, mesh = _whole(device), _mesh(device)
    between = Shard(1) if tokens else Replicate()
    plan: dict[str, Any] = {
        n: ColwiseParallel(input_layouts=between) for n in ("q", "k", "v", "up")
    }
    plan |= {name: RowwiseParallel(output_layouts=between) for name in ("o", "down")}
    if tokens:
        plan |= {name: SequenceParallel() for name in ("norm1", "norm2")}
    for block in model.blocks:  # type: ignore[union-attr]
        parallelize_module(block, mesh, plan)
    return model


def _fully_sharded(device: str) -> nn.Module:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model, mesh = Whole().to(device), _mesh(device)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model


def _mesh(device: str) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(torch.device(device).type, (2,))


PROGRAMS: dict[str, Callable[[str], nn.Module]] = {
    "whole": _whole,
    "tensor_parallel": lambda device: _cut(device, tokens=False),
    "sequence_parallel": lambda device: _cut(device, tokens=True),
    "fully_sharded": _fully_sharded,
}
"""Name -> the model on a device, in a group of two ranks."""


WARM_UP = 4


def forward_of(device: str, name: str) -> Callable[[nn.Module], torch.Tensor]:
    """A forward pass of a program to one number, on this rank's tokens."""
    tokens = 8 if name == "sequence_parallel" else 16
    dtype = torch.float32 if name == "fully_sharded" else torch.bfloat16
    x = torch.randn(1, tokens, _WIDTH, device=device, dtype=dtype)
    return lambda model: model(x).float().sum()


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """AdamW, lists of it either whole or spread over a mesh: no operator takes both."""
    groups: dict[bool, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        groups.setdefault(hasattr(parameter, "device_mesh"), []).append(parameter)
    return torch.optim.AdamW([{"params": members} for members in groups.values()], foreach=True)


def measure_sharded(timer: HostTimer, repeats: int = 15) -> None:
    """Seconds of each program's passes: "grad" (forward), "backward", "step" (AdamW, foreach).

    Nothing where a process group is already there.
    """
    import torch.distributed as dist

    if not dist.is_available() or dist.is_initialized():
        return
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        _measure_calls(timer)
        for name in PROGRAMS:
            try:
                _measure(timer, name, repeats)
            except (RuntimeError, ImportError, TypeError, AttributeError) as error:
                timer.failures.append(f"{GROUP},{name}: {type(error).__name__}: {error}"[:300])
    finally:
        dist.destroy_process_group()


def _measure_calls(timer: HostTimer) -> None:
    """What the group that moves nothing costs itself, a call with its wait."""
    import torch.distributed as dist

    part, group = torch.ones(64, device=timer.device), dist.group.WORLD
    assert group is not None
    call, wait = torch.ops._c10d_functional.all_reduce, torch.ops._c10d_functional.wait_tensor
    name = group.group_name
    timer.calls(GROUP, "all_reduce", "operator", lambda: wait(call(part, "sum", name)))
    whole, done = torch.ones(128, device=timer.device), dist.all_gather_into_tensor
    timer.calls(GROUP, "all_gather", "blocking", lambda: done(whole, part))


def _measure(timer: HostTimer, name: str, repeats: int) -> None:
    model = PROGRAMS[name](timer.device).train()
    forward, optimizer = forward_of(timer.device, name), optimizer_of(model)
    times: dict[str, list[float]] = {}

    def timed(mode: str, call: Callable[[], Any]) -> Any:
        timer.wait()
        began = time.perf_counter_ns()
        out = call()
        times.setdefault(mode, []).append((time.perf_counter_ns() - began) * 1e-9)
        return out

    for _ in range(repeats + WARM_UP):
        loss = timed("grad", lambda: forward(model))
        timed("backward", loss.backward)
        timed("step", optimizer.step)
        optimizer.zero_grad(set_to_none=True)
    for mode, seconds in times.items():
        timer.add(GROUP, name, mode, seconds[WARM_UP:])
