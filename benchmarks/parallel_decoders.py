"""Measure steps of the ready-made parallel decoders on real devices.

    torchrun --standalone --nproc-per-node 4 benchmarks/parallel_decoders.py steps.jsonl

Runs every plan that fits the number of processes on a Llama of 8 billion parameters cut to 8 blocks
(and a Mixtral cut to 2), and writes one line a plan: the plan, the median step in seconds on the
host's clock with the device waited for, and the peak of allocated bytes (with what was allocated
before the plan began: it should be next to nothing). Needs torch and this
package's sources alone. On a CPU (Gloo) the models are made tiny, to try the script; ring attention
has no kernels there.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from gpuscope.program.models import find
from gpuscope.program.models.parallel.build import build_rank
from gpuscope.program.models.parallel.options import Job, Parallelism, Software
from gpuscope.program.models.parallel.size import TransformerSize

WARM, MEASURED = 5, 15
TOKENS = 4096


def plans(ranks: int) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Model, plan and software of each measurement."""
    dense: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"dp": ranks, "fsdp": "full"}, {}),
        ({"dp": ranks, "fsdp": "full", "recompute": "selective"}, {}),
        ({"dp": ranks, "fsdp": "full", "recompute": "full"}, {}),
        ({"dp": ranks, "fsdp": "full"}, {"fused_projections": True}),
        ({"dp": ranks, "fsdp": "full"}, {"attention": "eager", "fused_norm": False}),
        ({"dp": ranks, "fsdp": "full", "microbatches": 2}, {}),
        ({"dp": ranks, "fsdp": "zero2"}, {}),
        ({"dp": ranks, "fsdp": "zero1", "microbatches": 4}, {}),
        ({"dp": ranks, "fsdp": "none"}, {}),
        ({"tp": ranks, "microbatch": 2}, {}),
        ({"tp": ranks, "microbatch": 2, "sequence_parallel": False}, {}),
        ({"cp": ranks}, {}),
        ({"cp": ranks, "rotation": "alltoall"}, {}),
    ]
    if ranks == 4:
        dense += [({"dp": 2, "tp": 2}, {}), ({"dp": 4, "fsdp": "hybrid", "shard": 2}, {})]
    experts = [({"dp": ranks, "ep": ranks}, {}), ({"dp": ranks}, {})]
    return [("llama-3.1-8b", *plan) for plan in dense] + [("mixtral-8x7b", *p) for p in experts]


def size_of(name: str, tiny: bool) -> TransformerSize:
    """The model with few blocks; for a CPU narrow too."""
    made = find(name).size
    assert made is not None
    size = made().deep(8 if name.startswith("llama") else 2)
    if not tiny:
        return size
    experts = replace(size.experts, ffn=32) if size.experts else None
    narrow = {"hidden": 64, "heads": 8, "kv_heads": 8, "head": 8, "ffn": 64, "vocabulary": 128}
    return replace(size.deep(2), **narrow, experts=experts)  # type: ignore[arg-type]


def measured(job: Job) -> dict[str, Any]:
    """Median seconds of a step, the slowest and the quickest, and the peak of memory."""
    cuda = job.device == "cuda"
    if cuda:  # what an earlier plan held must not count
        gc.collect()
        torch.cuda.empty_cache()
    held = torch.cuda.memory_allocated() if cuda else 0
    step = build_rank(job)
    for _ in range(WARM if cuda else 1):
        step()
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(MEASURED if cuda else 2):
        dist.barrier()
        begun = time.perf_counter()
        step()
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
    found = {
        "step_s": statistics.median(seconds),
        "fastest_s": min(seconds),
        "slowest_s": max(seconds),
    }
    if cuda:
        found["peak_bytes"] = float(torch.cuda.max_memory_allocated())
        found["reserved_bytes"] = float(torch.cuda.max_memory_reserved())
        found["held_before_bytes"] = float(held)
    return found


def forget() -> None:
    """Give back what a plan allocated: its model is in cycles of hooks and graphs."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def main(out: str) -> None:
    """Measure every plan; rank 0 writes."""
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    dist.init_process_group("nccl" if cuda else "gloo")
    for name, plan, software in plans(dist.get_world_size()):
        line: dict[str, Any] = {"model": name, "plan": plan, "software": software}
        if not cuda and ("cp" in plan or name == "mixtral-8x7b"):
            software = {**software, "grouped_experts": False}
        try:
            job = Job(
                size=size_of(name, not cuda),
                plan=Parallelism(**plan),
                software=Software(**software),
                tokens=TOKENS if cuda else 32,
                device=device,
                compute_dtype="bfloat16" if cuda else "float32",
            )
            line |= {"blocks": job.size.layers, "tokens": job.tokens, **measured(job)}
        except Exception as error:  # one plan that fails must not lose the others
            line["error"] = f"{type(error).__name__}: {error}"[:500]
        forget()
        if dist.get_rank() == 0:
            with Path(out).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
