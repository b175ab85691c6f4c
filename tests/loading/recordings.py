"""Small recordings on disk: many ranks, as PyTorch's profiler writes them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

STEP_US = 1000


def trace(rank: int | None, *, ranks: int = 4, steps: int = 3, late_us: int = 0) -> dict:
    """Steps of a product and an all-reduce that ends on all ranks together.

    A rank that is `late_us` late works that much longer and waits that much less.
    """
    events = []
    for step in range(steps):
        at = 1_000_000 + step * STEP_US
        number = step * 10 + 1
        work, wait = 400 + late_us, 300 - late_us
        events += [
            _span("user_annotation", f"ProfilerStep#{step}", at, 990, 1, 1),
            _span("cpu_op", "aten::mm", at + 10, 30, 1, 1, {"External id": number}),
            _span("cuda_runtime", "cudaLaunchKernel", at + 20, 10, 1, 1, {"correlation": number}),
            _span(
                "kernel",
                "gemm_bf16",
                at + 60,
                work,
                0,
                7,
                {
                    "correlation": number,
                    "device": 0,
                    "stream": 7,
                    "grid": [8, 1, 1],
                    "block": [128, 1, 1],
                },
            ),
            _span(
                "cuda_runtime", "cudaLaunchKernel", at + 50, 10, 1, 1, {"correlation": number + 1}
            ),
            _span(
                "kernel",
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)",
                at + 60 + work,
                wait,
                0,
                20,
                {
                    "correlation": number + 1,
                    "device": 0,
                    "stream": 20,
                    "Collective name": "allreduce",
                    "Group size": ranks,
                    "Process Group Name": "0",
                    "In msg nelems": 1024,
                    "Out msg nelems": 1024,
                    "dtype": "BFloat16",
                },
            ),
        ]
    document = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        "deviceProperties": [
            {
                "id": 0,
                "name": "NVIDIA H200",
                "totalGlobalMem": 150_000_000_000,
                "computeMajor": 9,
                "computeMinor": 0,
                "numSms": 132,
            }
        ],
        "traceEvents": events,
    }
    if rank is not None:
        document["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": ranks}
    return document


def _span(cat, name, ts, dur, pid, tid, args=None) -> dict:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args or {},
    }


def write(path: Path, document: dict) -> Path:
    """Write a trace, compressed where the name says so."""
    data = json.dumps(document).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def folder(path: Path, ranks: int = 4, late: int = 2) -> Path:
    """A folder of ranks, one of which makes the others wait."""
    for rank in range(ranks):
        document = trace(rank, ranks=ranks, late_us=200 if rank == late else 0)
        write(path / f"rank{rank}.json.gz", document)
    return path
