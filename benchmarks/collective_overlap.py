"""Collectives alone, beside compute and beside each other; what their calls cost the host.

    torchrun --standalone --nproc-per-node 4 benchmarks/collective_overlap.py --out FILE.jsonl

Needs PyTorch alone, two ranks or more. Writes one JSON line a finding, as it goes:

    alone       six operations by size and ranks: events around a loop, and the kernels themselves
                (the shortest over the ranks of each call, so without waiting), with their blocks
    overlap     beside matrix products, and beside a kernel that memory limits: both sides' times
    two         two collectives at once, over the same links and over others
    host        what one call costs the thread that makes it
    point       messages to and fro between two ranks, and one way
    protocols   all-reduce, all-gather and reduce-scatter by each NCCL algorithm and protocol
    symmetric   all-reduces over symmetric memory, one-shot and two-shot (no in-switch addition)

A part that fails says so in its line and the next one begins; `--budget-s` ends it early.
`--device cpu` runs on Gloo, for a try without GPUs: only `host` then means anything.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
import torch.distributed as dist
from collective_host import host, point
from collective_ranks import (
    GATE_CYCLES,
    OPERATIONS,
    SPIN_CYCLES,
    Call,
    Rank,
    Recorded,
    calls_of,
    covered,
    facts,
    make_call,
    median,
    shortest,
    union,
)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LOOPS, KERNELS = 3, 4
RAW = 60
"""Kernels of an overlap kept as they ran: collective or not, start, duration."""

PROTOCOLS = ("Ring LL", "Ring LL128", "Ring Simple", "Tree LL", "Tree LL128", "Tree Simple")


def sizes(largest: int) -> list[int]:
    """1 KiB, 8 KiB, then 64 KiB to `largest`, each four times the one before."""
    found = [KIB, 8 * KIB]
    size = 64 * KIB
    while size <= largest:
        found.append(size)
        size *= 4
    return [s for s in found if s <= largest]


def alone(rank: Rank, largest: int) -> None:
    """Part `alone`: the whole world, and the first two ranks."""
    for count in sorted({2, rank.world}, reverse=True):
        ranks = list(range(count))
        group = dist.new_group(ranks) if count < rank.world else dist.group.WORLD
        for operation in OPERATIONS:
            if rank.late():
                return
            inside = rank.rank < count
            found = _alone_here(rank, operation, ranks, group, largest) if inside else []
            _write_alone(rank, operation, count, rank.all(found)[:count])


def _alone_here(
    rank: Rank, operation: str, ranks: Sequence[int], group: Any, largest: int
) -> list[dict[str, Any]]:
    """One operation at all sizes: loops, then kernels in one recording."""
    rows, calls = [], []
    for size in sizes(largest):
        call = make_call(rank, operation, size, group, ranks)
        for _ in range(2):
            call()
        loops = [rank.loop_s(call, calls_of(size), group) for _ in range(LOOPS)]
        rows.append({"bytes": size, "loop_s": loops, "kernels": []})
        calls.append(call)

    def work() -> None:
        for call in calls:
            if rank.on_gpu:
                torch.cuda._sleep(SPIN_CYCLES)  # parts one size from the next in the recording
            for _ in range(KERNELS + 1):
                call()

    at = -1
    for kernel in rank.recorded(work):
        if "spin" in kernel.name:
            at += 1
        elif kernel.is_collective and 0 <= at < len(rows):
            rows[at]["kernels"].append((kernel.duration_s, kernel.grid, kernel.block, kernel.name))
    return rows


def _write_alone(
    rank: Rank, operation: str, count: int, by_rank: Sequence[list[dict[str, Any]]]
) -> None:
    for i, row in enumerate(by_rank[0]):
        mine = [rows[i] for rows in by_rank]
        times = [[k[0] for k in r["kernels"]][1:] for r in mine]  # the first lines the ranks up
        first = row["kernels"][-1] if row["kernels"] else (None, None, None, None)
        rank.write(
            {
                "part": "alone",
                "operation": operation,
                "ranks": count,
                "bytes": row["bytes"],
                "loop_s": [max(r["loop_s"][j] for r in mine) for j in range(LOOPS)],
                "kernel_s": shortest(times),
                "kernel_rank0_s": times[0],
                "grid": first[1],
                "block": first[2],
                "kernel": first[3],
            }
        )


def backgrounds(rank: Rank) -> dict[str, tuple[Call, int]]:
    """Kernels to run beside: what, and how many last some 15 ms."""
    n = 8192 if rank.on_gpu else 64
    a = torch.randn(n, n, device=rank.device).to(rank.dtype)
    b = torch.randn(n, n, device=rank.device).to(rank.dtype)
    out = torch.empty_like(a)
    items = 256 * MIB if rank.on_gpu else KIB
    x = torch.randn(items, device=rank.device).to(rank.dtype)
    y, z = x.clone(), torch.empty_like(x)
    return {
        "matmul": (lambda: torch.mm(a, b, out=out), 10 if rank.on_gpu else 1),
        "memory": (lambda: torch.add(x, y, out=z), 40 if rank.on_gpu else 1),
    }


def side_by_side(rank: Rank, sides: Sequence[tuple[Call, int]]) -> list[Recorded]:
    """Kernels of loops that begin together, each issued from its own stream."""
    if not rank.on_gpu:
        for call, count in sides:
            for _ in range(count):
                call()
        return []
    streams = [torch.cuda.Stream() for _ in sides]
    rank.together()

    def work() -> None:
        torch.cuda._sleep(GATE_CYCLES)
        gate = torch.cuda.Event()
        gate.record()
        for stream, (call, count) in zip(streams, sides, strict=True):
            with torch.cuda.stream(stream):
                gate.wait()
                for _ in range(count):
                    call()

    return [k for k in rank.recorded(work) if "spin" not in k.name]


def overlap(rank: Rank) -> None:
    """Part `overlap`: every operation beside each kind of compute."""
    ranks = list(range(rank.world))
    beside = backgrounds(rank)
    alone_s = {
        name: [k.duration_s for k in side_by_side(rank, [(call, count)])]
        for name, (call, count) in beside.items()
    }
    for size in (64 * MIB, 4 * MIB, 512 * KIB) if rank.on_gpu else (64 * KIB,):
        for operation in OPERATIONS[:5]:
            if rank.late():
                return
            call = make_call(rank, operation, size, dist.group.WORLD, ranks)
            call()
            once = [k.duration_s for k in side_by_side(rank, [(call, 8)]) if k.is_collective]
            by_rank = rank.all(once)
            base = median(shortest(by_rank)) or 1e-3
            for name, (product, many) in beside.items():
                count = max(4, min(250, round(18e-3 / base)))
                both = side_by_side(rank, [(call, count), (product, many)])
                _write_overlap(rank, operation, size, name, base, alone_s[name], both)


def _write_overlap(
    rank: Rank,
    operation: str,
    size: int,
    name: str,
    base: float,
    alone: Sequence[float],
    both: Sequence[Recorded],
) -> None:
    moving = [k for k in both if k.is_collective]
    computing = [k for k in both if not k.is_collective]
    busy, at_work = union(moving), union(computing)
    slowed = [k.duration_s for k in computing if covered(k, busy)]
    mine = [(k.duration_s, covered(k, at_work)) for k in moving]
    by_rank, theirs = rank.all(mine), rank.all((slowed, list(alone)))
    inside = [
        min(r[i][0] for r in by_rank)
        for i in range(min(map(len, by_rank), default=0))
        if all(r[i][1] for r in by_rank)
    ]
    rank.write(
        {
            "part": "overlap",
            "operation": operation,
            "ranks": rank.world,
            "bytes": size,
            "beside": name,
            "collective_alone_s": base,
            "collective_s": inside,
            "compute_alone_s": [median(a) for _, a in theirs],
            "compute_s": [median(s) for s, _ in theirs],
            "compute_n": [len(s) for s, _ in theirs],
            "grid": moving[0].grid if moving else None,
            "compute_kernel": computing[0].name if computing else None,
            "compute_grid": computing[0].grid if computing else None,
            "rank0_s": [
                (k.is_collective, round(k.start_s - both[0].start_s, 7), k.duration_s)
                for k in both[:RAW]
            ],
        }
    )


def two(rank: Rank) -> None:
    """Part `two`: on two communicators of all ranks; with four ranks, rows and columns too."""
    everyone = list(range(rank.world))
    other = dist.new_group(everyone)
    places = {"same": ((dist.group.WORLD, everyone), (other, everyone))}
    if rank.world == 4:
        rows, columns = [[0, 1], [2, 3]], [[0, 2], [1, 3]]
        made = [[(dist.new_group(r), r) for r in side] for side in (rows, columns)]
        mine = [next(g for g in side if rank.rank in g[1]) for side in made]
        places["rows and columns"] = (mine[0], mine[1])
    pairs = (
        ("all_reduce", "all_reduce"),
        ("all_gather", "reduce_scatter"),
        ("all_gather", "all_to_all"),
        ("reduce_scatter", "reduce_scatter"),
    )
    for where, (one, another) in places.items():
        for size in (64 * MIB, 2 * MIB) if rank.on_gpu else (64 * KIB,):
            for names in pairs:
                if rank.late():
                    return
                _two(rank, where, size, names, (one, another))


def _two(
    rank: Rank, where: str, size: int, names: Sequence[str], places: Sequence[tuple[Any, list[int]]]
) -> None:
    calls = [make_call(rank, n, size, g, r) for n, (g, r) in zip(names, places, strict=True)]
    base, kernels = [], []
    for call in calls:
        call()
        found = [k for k in side_by_side(rank, [(call, 8)]) if k.is_collective]
        times = shortest(rank.all([k.duration_s for k in found]))
        base.append(median(times) or 1e-3)
        kernels.append(found[0].name if found else "")
    counts = [max(4, min(150, round(10e-3 / s))) for s in base]
    both = side_by_side(rank, list(zip(calls, counts, strict=True)))
    parts = _by_call([k for k in both if k.is_collective], kernels)
    times = []
    for i, mine in enumerate(parts):
        busy = union(parts[1 - i])
        by_rank = rank.all([(k.duration_s, covered(k, busy)) for k in mine])
        times.append(
            [
                min(r[j][0] for r in by_rank)
                for j in range(min(map(len, by_rank), default=0))
                if all(r[j][1] for r in by_rank)
            ]
        )
    rank.write(
        {
            "part": "two",
            "where": where,
            "operations": list(names),
            "ranks": rank.world,
            "bytes": size,
            "alone_s": base,
            "both_s": [median(t) for t in times],
            "n": [len(t) for t in times],
        }
    )


def _by_call(both: Sequence[Recorded], kernels: Sequence[str]) -> list[list[Recorded]]:
    """Kernels of two loops, by call: each has a stream of its own, new in every recording."""
    by_stream: dict[int, list[Recorded]] = {}
    for kernel in both:
        by_stream.setdefault(kernel.stream, []).append(kernel)
    found = sorted(by_stream.values(), key=lambda mine: mine[0].name != kernels[0])
    return [*found, [], []][:2]


def protocols(rank: Rank) -> None:
    """Part `protocols`: a communicator for each algorithm and protocol (read when it is made)."""
    ranks = list(range(rank.world))
    for name in PROTOCOLS if rank.on_gpu else ():
        if rank.late():
            return
        algorithm, protocol = name.split()
        os.environ["NCCL_ALGO"], os.environ["NCCL_PROTO"] = algorithm, protocol
        try:
            group = dist.new_group(ranks)
            names = OPERATIONS[:3] if algorithm == "Ring" else OPERATIONS[:1]
            for operation in names:
                for size in sizes(64 * MIB):
                    call = make_call(rank, operation, size, group, ranks)
                    call()
                    mine = [rank.loop_s(call, min(calls_of(size), 20), group) for _ in range(2)]
                    by_rank = rank.all(mine)
                    rank.write(
                        {
                            "part": "protocols",
                            "algorithm": algorithm,
                            "protocol": protocol,
                            "operation": operation,
                            "ranks": rank.world,
                            "bytes": size,
                            "loop_s": [max(r[j] for r in by_rank) for j in range(2)],
                        }
                    )
        finally:
            os.environ.pop("NCCL_ALGO"), os.environ.pop("NCCL_PROTO")


def symmetric(rank: Rank) -> None:
    """Part `symmetric`: PyTorch's own all-reduces over memory that the others can read."""
    if not rank.on_gpu:
        return
    from torch.distributed import _symmetric_memory as memory

    group = dist.group.WORLD
    name = group.group_name
    for size in (KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB):
        if rank.late():
            return
        shared = memory.empty(size // 2, dtype=torch.bfloat16, device=rank.device)
        memory.rendezvous(shared, group=name)
        shared.zero_()
        for way in ("one_shot_all_reduce", "two_shot_all_reduce_"):
            operator = getattr(torch.ops.symm_mem, way)
            call = lambda operator=operator, shared=shared: operator(shared, "sum", name)  # noqa: E731
            call()
            by_rank = rank.all([rank.loop_s(call, 20, group) for _ in range(LOOPS)])
            rank.write(
                {
                    "part": "symmetric",
                    "operation": way,
                    "ranks": rank.world,
                    "bytes": size,
                    "loop_s": [max(r[j] for r in by_rank) for j in range(LOOPS)],
                }
            )


def main() -> None:
    """Run all parts, or those that `--only` names."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--budget-s", type=float, default=95.0)
    parser.add_argument("--largest", type=int, default=None, help="bytes; 1 GiB, 1 MiB on a CPU")
    parser.add_argument("--only", default="", help="parts, comma-separated")
    args = parser.parse_args()
    rank = Rank(args.device, args.out, args.budget_s)
    rank.write(facts(rank))
    largest = args.largest or (GIB if rank.on_gpu else MIB)
    parts: dict[str, Callable[[], None]] = {
        "overlap": lambda: overlap(rank),
        "alone": lambda: alone(rank, largest),
        "host": lambda: host(rank),
        "point": lambda: point(rank),
        "protocols": lambda: protocols(rank),
        "two": lambda: two(rank),
        "symmetric": lambda: symmetric(rank),
    }
    for name, part in parts.items():
        if args.only and name not in args.only.split(","):
            continue
        began = time.perf_counter()
        try:
            if not rank.late():
                part()
            rank.write({"part": "done", "of": name, "seconds": time.perf_counter() - began})
        except Exception as error:  # the next part may still work
            rank.write({"part": "failed", "of": name, "why": str(error)[:300]})
            sys.stderr.write(f"rank {rank.rank}, {name}:\n{traceback.format_exc()}\n")
    rank.sync()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
