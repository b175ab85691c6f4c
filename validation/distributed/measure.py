"""Measure the distributed workloads on this machine's GPUs: `measure.py --out DIR [name ...]`.

Each runs in processes of its own, one a GPU, started as torchrun starts them (forked after the
imports, before CUDA): step time between synchronisations (blocks of steps, the slowest rank
counts), each rank's peak memory and host time to issue, then one profiled step with every kernel,
of rank 0 and, for pipelines, of the last rank.
"""

from __future__ import annotations

import argparse
import csv
import functools
import gzip
import importlib
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "src"), str(HERE.parent), str(HERE), str(HERE / "workloads")]

from rows import ROWS, Row  # noqa: E402


def _zoo_measure():
    """`validation/measure.py`, which has this file's name."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("zoo_measure", HERE.parent / "measure.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(row: Row, rank: int, world: int, out: Path, seconds: float) -> None:
    """One rank's part of a workload; rank 0 writes what all found."""
    import torch
    import torch.distributed as dist

    module, _, function = row.target.partition(".py:")
    step = getattr(importlib.import_module(module), function)()
    firsts = []
    for _ in range(5):
        dist.barrier()
        torch.cuda.synchronize()
        t = time.perf_counter()
        step()
        torch.cuda.synchronize()
        firsts.append(time.perf_counter() - t)
    rough = torch.tensor(min(firsts), device="cuda")
    dist.all_reduce(rough, dist.ReduceOp.MAX)
    torch.cuda.reset_peak_memory_stats()
    per_block = max(3, min(100, int(seconds / 6 / rough.item()) + 1))
    blocks = []
    for _ in range(6):
        dist.barrier()
        torch.cuda.synchronize()
        t = time.perf_counter()
        for _ in range(per_block):
            step()
        torch.cuda.synchronize()
        blocks.append((time.perf_counter() - t) / per_block)
    issue = []
    for _ in range(5):
        dist.barrier()
        torch.cuda.synchronize()
        t = time.perf_counter()
        step()
        issue.append(time.perf_counter() - t)
    torch.cuda.synchronize()
    mine = {
        "rank": rank,
        "step_time_s": statistics.median(blocks),
        "blocks_s": blocks,
        "first_steps_s": firsts,
        "host_issue_s": statistics.median(issue),
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
    }
    profile = _zoo_measure().profile

    dist.barrier()
    rows = profile(step)
    mine["kernel_count"] = len(rows)
    if rank in (0, world - 1):
        path = out / f"{row.name}-{world}-rank{rank}.csv.gz"
        with gzip.open(path, "wt", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(
                [
                    "start_us",
                    "stream",
                    "duration_us",
                    "kernel",
                    "grid",
                    "block",
                    "op",
                    "shapes",
                    "bytes",
                ]
            )
            writer.writerows(rows)
    every: list[dict[str, object] | None] = [None] * world
    dist.all_gather_object(every, mine)
    if rank == 0:
        found = [r for r in every if r]
        record = {
            "name": row.name,
            "target": row.target,
            "world": world,
            "step_time_s": max(float(r["step_time_s"]) for r in found),
            "ranks": found,
        }
        (out / f"{row.name}-{world}.json").write_text(json.dumps(record, indent=1))
        peak = max(int(r["peak_allocated_bytes"]) for r in found) / 2**30
        print(
            f"{row.name} x{world}: {record['step_time_s'] * 1e3:.3f} ms, issue "
            f"{mine['host_issue_s'] * 1e3:.3f} ms, peak {peak:.3f} GiB",
            flush=True,
        )
    dist.barrier()


def start(
    name: str, work: Callable[[int], None], world: int, port: int, limit_s: float
) -> tuple[int, ...]:
    """Fork the ranks of one workload and wait for them, at most `limit_s`.

    Args:
        name: for what is printed.
        work: what a rank does, given its number; its end is the process's.
        world: how many ranks.
        port: where they meet.
        limit_s: seconds until all are ended.

    Returns:
        The ranks that failed first, by the number; () where all went well.
    """
    children = {}
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            os.environ.update(
                {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(world),
                    "LOCAL_WORLD_SIZE": str(world),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "OMP_NUM_THREADS": "4",
                }
            )
            code = 1
            try:
                work(rank)
                code = 0
            except BaseException as error:
                text = f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"
                print(f"{name} x{world} rank {rank}: {text[:400]}", flush=True)
            os._exit(code)
        children[pid] = rank
    deadline = time.monotonic() + limit_s
    failed: list[int] = []
    while children:
        for pid in list(children):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                rank = children.pop(pid)
                failed += [rank] if status != 0 else []
        if children and (time.monotonic() > deadline or failed):
            time.sleep(2.0 if failed else 0)
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            for pid in children:
                os.waitpid(pid, 0)
            print(f"{name} x{world}: stopped", flush=True)
            return tuple(failed) or tuple(children.values())
        time.sleep(0.05)
    return tuple(failed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ranks", type=int, default=0, help="0: all GPUs")
    parser.add_argument("--seconds", type=float, default=2.0, help="timed seconds a workload")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a workload at most")
    parser.add_argument("--budget", type=float, default=500.0, help="seconds in all")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    import torch
    import transformers  # noqa: F401

    import gpuscope.program.models.networks.resnet  # noqa: F401

    world = args.ranks or torch.cuda.device_count()
    for number, row in enumerate(ROWS):
        if (args.names and row.name not in args.names) or world not in row.ranks:
            continue
        if time.monotonic() - began > args.budget:
            print(f"{row.name}: left out, no time", flush=True)
            continue
        work = functools.partial(run, row, world=world, out=args.out, seconds=args.seconds)
        start(row.name, work, world, 29500 + number, args.limit)


if __name__ == "__main__":
    main()
