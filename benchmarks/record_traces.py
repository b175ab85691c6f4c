"""Record small traces with a known cause: what `gpuscope analyze` must find, and nothing else.

    python benchmarks/record_traces.py --out DIR                              # one GPU
    torchrun --nproc-per-node 4 benchmarks/record_traces.py --out DIR         # several, NCCL

One folder a case, one trace a rank. The cause is built in by hand (a rank that sleeps, a rank with
more work, input that comes late, ...), so the tests know the answer.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

Step = Callable[[], object]

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))


def busy(seconds: float) -> None:
    """Keep the host busy in Python, as slow user code does."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def block(width: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers)


def train(model: nn.Module, x: torch.Tensor, before: Step = lambda: None) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step() -> None:
        before()
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    return step


# -- one GPU ------------------------------------------------------------------------------------


def compute_bound() -> Step:
    model = block(8192, 4).cuda().bfloat16()
    return train(model, torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16))


def host_bound() -> Step:
    model = block(128, 40).cuda()
    return train(model, torch.randn(16, 128, device="cuda"))


def input_bound() -> Step:
    model = block(2048, 6).cuda()

    def batches():
        while True:
            busy(0.012)
            yield torch.randn(512, 2048)

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return batches()

    loader = iter(torch.utils.data.DataLoader(Stream(), batch_size=None))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step() -> None:
        x = next(loader).cuda()
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    return step


def sync_bound() -> Step:
    model = block(1024, 12).cuda()
    x = torch.randn(256, 1024, device="cuda")

    def step() -> None:
        y = x
        for layer in model:
            y = layer(y)
            if y.abs().max().item() > 1e9:  # the host waits here, layer after layer
                break

    return step


def pageable_copies() -> Step:
    model = block(1024, 2).cuda()
    host = torch.randn(64, 1024, 256)  # 64 MiB, not pinned

    def step() -> None:
        model(host.cuda().reshape(-1, 1024))

    return step


def graph_decode() -> Step:
    model = block(2048, 30).cuda().bfloat16()
    x = torch.randn(1, 2048, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(x)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(x)

    def step() -> None:
        for _ in range(20):
            graph.replay()

    return step


def two_streams() -> Step:
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    host = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True)
    side = torch.cuda.Stream()

    def step() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            moved = host.to("cuda", non_blocking=True)
        b = a @ a
        b = b @ a
        torch.cuda.current_stream().wait_stream(side)
        (moved.float().sum() + b.float().sum()).add_(1)

    return step


SINGLE = {
    f.__name__: f
    for f in (
        compute_bound,
        host_bound,
        input_bound,
        sync_bound,
        pageable_copies,
        graph_decode,
        two_streams,
    )
}

# -- several GPUs -------------------------------------------------------------------------------


def _ddp(depth: int, batch: int, before: Step = lambda: None) -> Step:
    model = nn.parallel.DistributedDataParallel(
        block(4096, depth).cuda().bfloat16(), device_ids=[torch.cuda.current_device()]
    )
    return train(model, torch.randn(batch, 4096, device="cuda", dtype=torch.bfloat16), before)


def ddp_balanced() -> Step:
    return _ddp(8, 4096)


def ddp_slow_host() -> Step:
    """Rank 1's Python takes 10 ms more before each step."""
    return _ddp(8, 4096, before=(lambda: busy(0.010)) if RANK == 1 else (lambda: None))


def ddp_imbalance() -> Step:
    """The last rank has three times the batch."""
    return _ddp(8, 12288 if RANK == WORLD - 1 else 4096)


def tensor_parallel_host_bound() -> Step:
    """Small products and an all-reduce after each; rank 0's host is slow before every one."""
    shards = [torch.randn(1024 // WORLD, 1024, device="cuda") for _ in range(24)]
    x = torch.randn(8, 1024 // WORLD, device="cuda")

    def step() -> None:
        for weight in shards:
            if RANK == 0:
                busy(0.0004)
            y = x @ weight
            dist.all_reduce(y)

    return step


def fsdp() -> Step:
    from torch.distributed.fsdp import fully_shard

    model = block(4096, 8).cuda().bfloat16()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    return train(model, torch.randn(2048, 4096, device="cuda", dtype=torch.bfloat16))


SEVERAL = {
    f.__name__: f
    for f in (ddp_balanced, ddp_slow_host, ddp_imbalance, tensor_parallel_host_bound, fsdp)
}


def record(name: str, build: Callable[[], Step], out: Path, steps: int) -> None:
    """Warm up, then profile a few marked steps into `out/name/rank-R.json.gz`."""
    step = build()
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    if WORLD > 1:
        dist.barrier()
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rank-{RANK}.json.gz"
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        record_shapes=True,
        schedule=schedule(wait=0, warmup=2, active=steps),
        with_stack=name == "host_bound",
        on_trace_ready=lambda prof: prof.export_chrome_trace(str(path)),
    ) as prof:
        for _ in range(steps + 2):
            with record_function("gpuscope.step"):
                step()
            prof.step()
        torch.cuda.synchronize()
    print(f"{name} rank {RANK}: {path.stat().st_size} bytes", flush=True)


def snapshot(out: Path) -> None:
    """A memory snapshot of a training step, as `torch.cuda.memory._dump_snapshot` writes it."""
    torch.cuda.memory._record_memory_history(max_entries=20_000)
    step = train(block(1024, 4).cuda(), torch.randn(512, 1024, device="cuda"))
    for _ in range(2):
        step()
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(str(out / "snapshot.pickle"))
    torch.cuda.memory._record_memory_history(enabled=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--only", nargs="*")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    if WORLD > 1:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    cases = SEVERAL if WORLD > 1 else SINGLE
    for name, build in cases.items():
        if args.only and name not in args.only:
            continue
        try:
            record(name, build, args.out, args.steps)
        except Exception as error:
            print(f"{name}: {error!r}", flush=True)
            if WORLD > 1:
                raise
        torch.cuda.empty_cache()
    if WORLD > 1:
        dist.destroy_process_group()
    elif not args.only:
        snapshot(args.out)


if __name__ == "__main__":
    main()
