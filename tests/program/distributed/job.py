"""Short ways to run code as one rank of a job, and to look at what it did."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from gpuscope.program.capture import capture
from gpuscope.program.types import Op, Program
from gpuscope.program.world import World


def joined() -> Any:
    """Join the job, as a script under torchrun does; this rank's device."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return torch.device("cuda", int(os.environ["LOCAL_RANK"]))


def run(step: Callable[[Any], object], rank: int = 1, size: int = 4) -> Program:
    """A step that gets this rank's device, as `rank` of `size`."""

    def build() -> Callable[[], object]:
        device = joined()
        return lambda: step(device)

    return capture(build, world=World(size, rank))


def collectives(program: Program) -> list[Op]:
    return [op for op in program.ops if op.group >= 0]


def base(op: Op) -> str:
    return op.name.rpartition("::")[2]


def count(program: Program, name: str) -> int:
    return sum(base(op) == name for op in program.ops)


def training(model: Any, x: Any, **options: Any) -> Callable[[], None]:
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), **options)

    def step() -> None:
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def linears(layers: int, width: int, device: Any) -> Any:
    import torch.nn as nn

    return nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(layers)]).to(device)


def live_bytes(program: Program, at: int, *categories: str) -> int:
    """Device memory held while operator `at` runs."""
    return sum(
        s.nbytes
        for s in program.storages
        if s.born <= at
        and (s.died is None or s.died > at)
        and (not categories or s.category in categories)
    )


def peak_bytes(program: Program, *categories: str) -> int:
    return max(live_bytes(program, at, *categories) for at in range(len(program.ops)))
