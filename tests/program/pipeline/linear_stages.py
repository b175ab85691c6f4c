"""Stages that are stacks of Linears, whose memory and work are known by hand."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from gpuscope.program.capture import capture
from gpuscope.program.pipeline.blocks import StageBlocks, read_blocks
from gpuscope.program.world import World

WIDTH, ROWS = 64, 32


def stage_build(
    stage: int,
    stages: int,
    *,
    layers: int = 2,
    split: bool = False,
    width: int = WIDTH,
    rows: int = ROWS,
) -> Callable[[], Callable[[], object]]:
    """A build of one stage: `layers` Linears of `width` without bias, `rows` rows a microbatch."""

    def build() -> Callable[[], object]:
        import torch
        import torch.distributed as dist

        from gpuscope.program.pipeline.stage_step import StageParts, stage_step

        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        model = torch.nn.Sequential(
            *(torch.nn.Linear(width, width, bias=False) for _ in range(layers))
        ).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        first, last = stage == 0, stage == stages - 1
        x = torch.empty(rows, width, device="cuda", requires_grad=not first)
        target = torch.randn(rows, width, device="cuda")

        def finish() -> None:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        def loss(output: Any) -> Any:
            return torch.nn.functional.huber_loss(output, target)

        return stage_step(
            StageParts(
                model,
                stage,
                stages,
                (x,),
                () if last else (torch.empty_like(x),),
                finish,
                loss=loss if last else None,
                split=split,
            )
        )

    return build


def stage_blocks(
    stage: int,
    stages: int,
    ranks: int,
    *,
    layers: int = 2,
    split: bool = False,
    width: int = WIDTH,
    rows: int = ROWS,
) -> StageBlocks:
    """One stage captured as the rank that holds it."""
    build = stage_build(stage, stages, layers=layers, split=split, width=width, rows=rows)
    return read_blocks(capture(build, world=World(ranks, stage % ranks), name=f"stage {stage}"))
