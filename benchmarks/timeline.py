"""Time the timeline room and print JSON: simulation of 10,000 kernels, 30,000 allocations.

Run: python benchmarks/timeline.py
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gpuscope.cost.types import CostedOp, CostedProgram, HostCost, Kernel
from gpuscope.program.types import Op, Program, Storage
from gpuscope.timeline import simulate, simulate_memory, step_time_interval
from gpuscope.timeline.perfetto import write_chrome_trace
from gpuscope.timeline.schedule import build_schedule
from gpuscope.timeline.walk import walk_steps

KERNELS = 10_000
ALLOCATIONS = 30_000
MIB = 1 << 20


def step(kernels: int) -> CostedProgram:
    """A step whose pace the host and the device set in turns, with a wait now and then."""
    rng = random.Random(0)
    ops = []
    for index in range(kernels):
        duration_s = rng.choice((3e-6, 5e-6, 20e-6, 60e-6))
        sync = "item" if index % 1000 == 999 else ""
        phase = ("forward", "backward", "optimizer")[index * 3 // kernels]
        ops.append(
            CostedOp(
                Op(index, "aten::mm", phase=phase, sync=sync),
                (Kernel("gemm", "matmul", index, duration_s, duration_s * 0.9, duration_s * 1.1),),
                HostCost(4e-6, 3e-6, 1e-6, sync),
            )
        )
    return CostedProgram(Program("benchmark", tuple(item.op for item in ops)), "none", tuple(ops))


def allocations(count: int) -> Program:
    """Activations and temporaries of mixed sizes over a step."""
    rng = random.Random(0)
    ops = count // 2
    sizes = (512, 4096, 70_000, MIB, 3 * MIB + 5, 20 * MIB, 33 * MIB)
    storages = []
    for index in range(ops):
        until = min(ops, index + rng.choice((1, 2, 50, 3000)))
        storages.append(Storage(2 * index, rng.choice(sizes), "activation", index, until))
        storages.append(Storage(2 * index + 1, rng.choice(sizes), "temporary", index, index + 1))
    return Program("benchmark", tuple(Op(i, "aten::mm") for i in range(ops)), tuple(storages))


def best_s(work: Callable[[], object], repeats: int = 5) -> float:
    """Shortest of several runs, which other programs on the machine disturb least."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    """Measure and print."""
    costed, memory = step(KERNELS), allocations(ALLOCATIONS)
    schedule, timeline = build_schedule(costed), simulate(costed).timeline
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        result = {
            "kernels": KERNELS,
            "schedule_s": best_s(lambda: build_schedule(costed)),
            "walk_one_step_s": best_s(lambda: walk_steps(schedule, 3e-6, 1)),
            "simulate_s": best_s(lambda: simulate(costed)),
            "interval_s": best_s(lambda: step_time_interval(costed)),
            "chrome_trace_s": best_s(lambda: write_chrome_trace(timeline, path)),
            "allocations": ALLOCATIONS,
            "memory_one_step_s": best_s(lambda: simulate_memory(memory, steps=1)),
        }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
