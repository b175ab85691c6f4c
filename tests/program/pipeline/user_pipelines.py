"""Pipelines as users write them: stages of Linears under PyTorch's own schedules."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

WIDTH, ROWS = 64, 32
SCHEDULES = {
    "gpipe": "ScheduleGPipe",
    "1f1b": "Schedule1F1B",
    "interleaved": "ScheduleInterleaved1F1B",
    "looped-bfs": "ScheduleLoopedBFS",
    "zb": "ScheduleInterleavedZeroBubble",
    "zbv": "ScheduleZBVZeroBubble",
}


def user_build(
    schedule: str, microbatches: int, virtual: int = 1, *, dp: int = 1, shapes: bool = False
) -> Callable[[], Callable[[], object]]:
    """A training step of a pipeline: two Linears a stage, SGD; every rank runs this same code."""

    def build() -> Callable[[], object]:
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.pipelining import PipelineStage, schedules

        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        ranks = dist.get_world_size() // dp
        mesh = init_device_mesh("cuda", (ranks, dp), mesh_dim_names=("pp", "dp"))
        group, rank = mesh["pp"].get_group(), mesh["pp"].get_local_rank()
        device = torch.device("cuda", torch.cuda.current_device())
        count = ranks * virtual
        numbers = [rank + i * ranks for i in range(virtual)]
        if schedule == "zbv":
            numbers = [rank, count - 1 - rank]
        example = torch.empty(ROWS, WIDTH, device=device, requires_grad=True)
        known: dict[str, Any] = {}
        if shapes:
            known = {"input_args": (example,), "output_args": (example,)}
        modules = [
            torch.nn.Sequential(
                *(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
            ).cuda()
            for _ in numbers
        ]
        stages = [
            PipelineStage(module, number, count, device, group=group, **known)
            for module, number in zip(modules, numbers, strict=True)
        ]
        kind = getattr(schedules, SCHEDULES[schedule])
        single = schedule in ("gpipe", "1f1b")
        run = kind(
            stages[0] if single else stages,
            n_microbatches=microbatches,
            loss_fn=torch.nn.functional.mse_loss,
        )
        parameters = [p for module in modules for p in module.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
        x = torch.randn(ROWS * microbatches, WIDTH, device=device)
        y = torch.randn(ROWS * microbatches, WIDTH, device=device)

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            first, last = 0 in numbers, count - 1 in numbers
            run.step(*((x,) if first else ()), **({"target": y} if last else {}))
            optimizer.step()

        return step

    return build


def traced_build(microbatches: int, *, on_device: bool) -> Callable[[], Callable[[], object]]:
    """Two stages of two Linears, cut by `pipeline()` from a model on the device or on the host."""

    def build() -> Callable[[], object]:
        import torch
        import torch.distributed as dist
        from torch.distributed.pipelining import ScheduleGPipe, SplitPoint, pipeline

        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        device = torch.device("cuda", torch.cuda.current_device())
        model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)))
        example = torch.randn(ROWS, WIDTH)
        if on_device:
            model, example = model.cuda(), example.cuda()
        cut = pipeline(model, mb_args=(example,), split_spec={"2": SplitPoint.BEGINNING})
        rank = dist.get_rank()
        stage = cut.build_stage(rank, device)
        run = ScheduleGPipe(stage, microbatches, loss_fn=torch.nn.functional.mse_loss)
        optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.1)
        x = torch.randn(ROWS * microbatches, WIDTH, device=device)
        y = torch.randn(ROWS * microbatches, WIDTH, device=device)

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            run.step(*((x,) if rank == 0 else ()), **({"target": y} if rank == 1 else {}))
            optimizer.step()

        return step

    return build
