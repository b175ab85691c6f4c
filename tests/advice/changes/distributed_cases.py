"""Small distributed builds, captured on two ranks or more with changes at work."""

import torch
from sharing import Shared
from torch import nn

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import plan
from gpuscope.advice.types import ChangeCase
from gpuscope.api import predict, resolve_target
from gpuscope.program.world import RankPrograms

_SHARED = Shared()


def job_case(build, *names, on="2xh200"):
    """A build on several devices, changed; the program is the first rank's.

    Of equal builds it is the same.
    """
    return _SHARED.of(build, (names, on), lambda: _made(build, names, on))


def _made(build, names, on):
    from gpuscope.capturing import capture_job

    live = Live(plan(names))
    cluster = resolve_target(on)
    try:
        captured = capture_job(live.wrap(build), cluster)
        seen = live.seen()
    finally:
        live.close()
    program = captured.programs[0] if isinstance(captured, RankPrograms) else captured
    return ChangeCase(predict(captured, on), cluster, program, seen)


def ddp(micro_batches=1, counts=(), layers=4, width=768, device="cuda", **keywords):
    """DDP that accumulates without `no_sync`; `counts` gives micro-batches step by step."""

    def build():
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        if not dist.is_initialized():
            dist.init_process_group("nccl")
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers)))
        model = DistributedDataParallel(model.to(device), **keywords)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(4, width, device=device)
        left = list(counts)

        def step():
            optimizer.zero_grad()
            for _ in range(left.pop(0) if left else micro_batches):
                loss = model(x).square().mean()
                loss.backward()
            optimizer.step()
            return loss

        return step

    return build


def in_ddp(make):
    """Makes a model inside DDP, for builds that take models."""

    def made():
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        if not dist.is_initialized():
            dist.init_process_group("nccl")
        return DistributedDataParallel(make().cuda())

    return made


def fsdp(blocks=4, training=True, **keywords):
    """FSDP2 over equal blocks."""

    def build():
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard

        if not dist.is_initialized():
            dist.init_process_group("nccl")
        model = nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(blocks))).cuda()
        for block in model:
            fully_shard(block, **keywords)
        fully_shard(model, **keywords)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if training else None
        x = torch.randn(64, 1024, device="cuda")

        def step():
            loss = model(x).square().mean()
            if optimizer is not None:
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            return loss

        return step

    return build


def collectives(case, word):
    """Collectives of a case whose name holds a word."""
    return [op for op in case.program.ops if op.group >= 0 and word in op.name]


def moved(case, word, dtype=None):
    """Bytes they are given, of a dtype or all."""
    return sum(
        spec.nbytes
        for op in collectives(case, word)
        for spec in op.inputs
        if dtype is None or spec.dtype == dtype
    )
