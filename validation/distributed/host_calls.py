"""Host time of FSDP2's own operators, alone and amid others: `host_calls.py --out FILE`.

`alone`: the same call in batches between synchronisations, as `gpuscope bench` times calls. `amid`:
each call follows a hundred other operators of a model's kinds, untimed, so that it finds caches and
branch predictors as in a step. Seconds; medians. One GPU (the copies), or two (collectives).
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from measure import start  # noqa: E402

BATCH, BATCHES = 20, 15


def _copies() -> dict[str, Callable[[], object]]:
    import torch

    calls: dict[str, Callable[[], object]] = {}
    for count in (1, 3, 9, 36):
        parts = [torch.randn(64, 64, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
        whole = torch.zeros(2, 64 * 64 * count // 2, device="cuda")
        flat = torch.randn(2, 64 * 64 * count // 2, device="cuda", dtype=torch.bfloat16)
        sizes = [64 * 64 // 2] * count
        outs = [torch.empty(2, size, device="cuda", dtype=torch.bfloat16) for size in sizes]
        others = [torch.empty_like(part) for part in parts]
        calls |= {
            f"_chunk_cat {count}": lambda p=parts, w=whole: torch._chunk_cat(p, 0, 2, out=w),
            f"split_with_sizes_copy {count}": lambda f=flat, s=sizes, o=outs: (
                torch.split_with_sizes_copy(f, s, dim=1, out=o)
            ),
            f"_foreach_copy_ {count}": lambda a=others, b=parts: torch._foreach_copy_(a, b),
        }
    return calls


def _blocks() -> dict[str, Callable[[], object]]:
    """What a model calls anyhow: known to the bench, here for how much `amid` differs."""
    import torch
    from torch.nn import functional

    x = torch.randn(8, 64, 64, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    q = torch.randn(1, 4, 64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    n = torch.ones(64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    return {
        "add": lambda: x + x,
        "linear": lambda: functional.linear(x, w),
        "rms_norm": lambda: functional.rms_norm(x, (64,), n),
        "attention": lambda: functional.scaled_dot_product_attention(q, q, q, is_causal=True),
        "view": lambda: x.view(64, 512),
        "empty": lambda: torch.empty(64, 64, device="cuda"),
        "silu": lambda: functional.silu(x),
    }


def _collectives() -> dict[str, Callable[[], object]]:
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as funcol

    world = dist.get_world_size()
    part = torch.ones(1024, device="cuda")
    whole = torch.ones(1024 * world, device="cuda")
    group = dist.group.WORLD
    return {
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(whole, part),
        "all_gather_into_tensor async": lambda: dist.all_gather_into_tensor(
            whole, part, async_op=True
        ),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(part, whole),
        "all_reduce": lambda: dist.all_reduce(part),
        "functional all_reduce, waited": lambda: funcol.wait_tensor(
            funcol.all_reduce(part, "sum", group)
        ),
        "functional all_gather, waited": lambda: funcol.wait_tensor(
            funcol.all_gather_tensor(part, 0, group)
        ),
    }


def _alone(call: Callable[[], object], wait: Callable[[], None]) -> float:
    for _ in range(5):
        call()
    wait()
    found = []
    for _ in range(BATCHES):
        began = time.perf_counter()
        for _ in range(BATCH):
            call()
        found.append((time.perf_counter() - began) / BATCH)
        wait()
    return statistics.median(found)


def _amid(
    call: Callable[[], object], others: list[Callable[[], object]], wait: Callable[[], None]
) -> float:
    found = []
    for number in range(60):
        for other in others:
            other()
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
        if number % 4 == 3:
            wait()
    return statistics.median(found)


def run(rank: int, world: int, out: Path) -> None:
    """One rank's part; rank 0 writes."""
    import os

    import torch
    import torch.distributed as dist

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")

    def wait() -> None:
        dist.barrier()
        torch.cuda.synchronize()

    blocks = _blocks()
    calls = {**blocks, **_copies(), **_collectives()}
    others = [call for call in blocks.values() for _ in range(3)] * 5
    found: dict[str, Any] = {}
    for name, call in calls.items():
        found[name] = {"alone_s": _alone(call, wait), "amid_s": _amid(call, others, wait)}
        if rank == 0:
            print(name, {k: round(v * 1e6, 1) for k, v in found[name].items()}, flush=True)
    if rank == 0:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({"torch": torch.__version__, "world": world, "calls": found}))
    dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    import torch

    world = torch.cuda.device_count()
    work = functools.partial(run, world=world, out=args.out)
    start("host calls", work, world, 29700, 100)


if __name__ == "__main__":
    main()
