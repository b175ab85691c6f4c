"""Time `analyze` on a simulated step of 10,000 kernels and print JSON. Target: under 0.3 s.

Run: python benchmarks/analysis.py
"""

from __future__ import annotations

import json
import random
import statistics
import time

from gpuscope.analysis import analyze
from gpuscope.cost.types import CostedOp, CostedProgram, HostCost, Kernel
from gpuscope.hardware import device
from gpuscope.program.types import ModuleInfo, Op, Program, Storage, TensorSpec
from gpuscope.timeline import attach_memory, simulate, simulate_memory

KERNELS = 10_000
LAYERS = 100
REPEATS = 9

FAMILIES = (
    ("aten::mm", "matmul", "tensor_core", 60e-6),
    ("aten::add", "pointwise", "memory", 20e-6),
    ("aten::native_layer_norm", "normalization", "memory", 12e-6),
    ("aten::copy_", "copy", "latency", 2.5e-6),
)


def costed(kernels: int) -> CostedProgram:
    """A step with 100 layers, four families of kernels, many shapes, and a wait now and then."""
    rng = random.Random(0)
    ops = []
    for index in range(kernels):
        name, kind, limiter, duration_s = rng.choice(FAMILIES)
        layer = index * LAYERS // kernels
        width = 128 * rng.randint(1, 200)
        spec = TensorSpec((512, width), (width, 1), "bfloat16")
        sync = "item" if index % 1000 == 999 else ""
        phase = ("forward", "backward", "optimizer")[index * 3 // kernels]
        op = Op(
            index,
            name,
            inputs=(spec, spec),
            outputs=(spec,),
            phase=phase,
            sync=sync,
            module=f"layers.{layer}.block.{index % 7}",
        )
        flops = 2.0 * 512 * width * 512 if kind == "matmul" else 512.0 * width
        moved = 3.0 * spec.nbytes
        kernel = Kernel(
            f"{kind}_{width}",
            kind,
            index,
            duration_s,
            duration_s * 0.9,
            duration_s * 1.1,
            flops=flops,
            read_bytes=moved,
            written_bytes=moved / 3,
            least_bytes=moved,
            grid=width,
            waves=width / 132,
            limiter=limiter,
            dtype="bfloat16",
            compute_s=duration_s / 2,
            memory_s=duration_s / 3,
        )
        ops.append(CostedOp(op, (kernel,), HostCost(4e-6, 3e-6, 1e-6, sync)))
    modules = tuple(
        ModuleInfo(f"layers.{layer}.block.{i}", "Block", 1000)
        for layer in range(LAYERS)
        for i in range(7)
    )
    storages = tuple(
        Storage(i, 1 << 20, "activation", i, min(i + 500, kernels)) for i in range(kernels)
    )
    program = Program("benchmark", tuple(item.op for item in ops), storages, modules)
    return CostedProgram(program, "nvidia-h200-sxm", tuple(ops))


def main() -> None:
    step = costed(KERNELS)
    simulation = simulate(step)
    memory = simulate_memory(step.program)
    timeline = attach_memory(simulation.timeline, memory)
    h200 = device("nvidia-h200-sxm")
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        analyze(timeline, program=step.program, on=h200, memory=memory)
        seconds.append(time.perf_counter() - begin)
    print(
        json.dumps(
            {
                "kernels": KERNELS,
                "events": len(timeline.events),
                "first_s": round(seconds[0], 4),
                "median_s": round(statistics.median(seconds), 4),
                "target_s": 0.3,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
