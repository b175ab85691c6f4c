"""A plain torch.distributed loop beside the product's bench, in one job.

    torchrun --nproc-per-node 4 benchmarks/collectives.py --out collectives_check.json

For a few large messages the loop below (written without gpuscope: warm up, synchronise, two events
around ten calls) and `gpuscope.measurement.bench.collective_worker` take turns; the bus bandwidths
of the medians have to agree within 5 %. Writes both and their ratio. `--device cpu` runs on Gloo.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
CALLS, TURNS = 10, 5


def plain_loop_s(operation: str, whole: torch.Tensor, part: torch.Tensor, device: str) -> float:
    def call() -> None:
        if operation == "all_reduce":
            dist.all_reduce(whole, op=dist.ReduceOp.MAX)
        elif operation == "all_gather":
            dist.all_gather_into_tensor(whole, part)
        elif operation == "reduce_scatter":
            dist.reduce_scatter_tensor(part, whole)
        else:
            dist.all_to_all_single(torch.empty_like(whole), whole)

    for _ in range(3):
        call()
    if device == "cpu":
        dist.barrier()
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        return (time.perf_counter() - began) / CALLS
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(CALLS):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / CALLS


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--sizes", default="16777216,268435456,1073741824")
    args = parser.parse_args()
    from gpuscope.measurement.bench.collective_calls import bandwidths, make_call
    from gpuscope.measurement.bench.collective_worker import Rank

    rank = Rank(args.device)
    rows = []
    for operation in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        for size in (int(s) for s in args.sizes.split(",")):
            dtype = torch.float32 if args.device == "cpu" else torch.bfloat16
            count = size // dtype.itemsize // rank.world
            whole = torch.randn(count * rank.world, device=rank.device).to(dtype)
            part = torch.randn(count, device=rank.device).to(dtype)
            call, true_bytes = make_call(operation, size, dist.group.WORLD, rank.world, rank.device)
            for _ in range(3):
                call()
            plain, bench = [], []
            for _ in range(TURNS):
                own = plain_loop_s(operation, whole, part, args.device)
                plain.append(rank.slowest(own, dist.group.WORLD))
                bench.append(rank.loop_s(call, CALLS, dist.group.WORLD))
            a, b = statistics.median(plain), statistics.median(bench)
            rows.append(
                {
                    "operation": operation,
                    "ranks": rank.world,
                    "bytes": true_bytes,
                    "plain_s": plain,
                    "bench_s": bench,
                    "bench_over_plain": b / a,
                    "plain_bus_bytes_per_s": bandwidths(operation, rank.world, true_bytes, a)[1],
                    "bench_bus_bytes_per_s": bandwidths(operation, rank.world, true_bytes, b)[1],
                }
            )
            del whole, part, call
    if rank.rank == 0:
        args.out.write_text(
            json.dumps(
                {
                    "device": torch.cuda.get_device_name() if args.device == "cuda" else "cpu",
                    "torch": torch.__version__,
                    "nccl": {k: v for k, v in sorted(os.environ.items()) if k.startswith("NCCL_")},
                    "rows": rows,
                },
                indent=1,
            )
        )
        for row in rows:
            print(row["operation"], row["bytes"], f"{row['bench_over_plain']:.3f}")
        worst = max(abs(r["bench_over_plain"] - 1) for r in rows)
        print(f"worst difference {worst:.1%}; the target is 5 %")
    rank.close()


if __name__ == "__main__":
    main()
