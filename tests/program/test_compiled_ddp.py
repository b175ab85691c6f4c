"""DDP under `torch.compile`: graphs end where buckets do."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn

from gpuscope.capturing import capture
from gpuscope.program.fusion import FUSED, fuse
from gpuscope.program.world import World


class _Net(nn.Module):
    """Returns logits beside its loss, as language models do: nobody differentiates them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)])

    def forward(self, x: Any) -> Any:
        y = self.layers(x).relu()
        return y.pow(2).mean(), y


def _build(compiled: bool) -> Any:
    def build() -> Any:
        torch.distributed.init_process_group("nccl")
        net = nn.parallel.DistributedDataParallel(_Net().cuda(), bucket_cap_mb=8)
        run = torch.compile(net) if compiled else net
        x = torch.randn(64, 1024, device="cuda")

        def step() -> None:
            loss, _ = run(x)
            loss.backward()

        return step

    return build


def test_zeros_for_an_unwanted_result_are_made_once() -> None:
    program = fuse(capture(_build(True), world=World(2, 0, 2)))
    sent = [op.index for op in program.ops if op.name == "c10d::allreduce_"]
    assert len(sent) > 2
    assert sum(op.name == "aten::zeros" for op in program.ops) <= 1


def test_the_gradients_of_a_bucket_appear_together() -> None:
    """Compiled kernels of one bucket are not cut apart by what the reducer does."""
    program = fuse(capture(_build(True), world=World(2, 0, 2)))
    backward = [op for op in program.ops if op.phase == "backward"]
    turns = 0
    for one, other in pairwise(backward):
        turns += bool(one.region) != bool(other.region)
    buckets = sum(op.name == "c10d::allreduce_" for op in backward)
    assert any(op.name == FUSED for op in backward)
    assert turns <= 2 * buckets


def test_compiling_sends_the_same_bytes() -> None:
    def sent(compiled: bool) -> list[int]:
        ops = fuse(capture(_build(compiled), world=World(2, 0, 2))).ops
        return [op.inputs[0].nbytes for op in ops if op.name == "c10d::allreduce_"]

    assert sent(True) == sent(False)
