"""Does `gpuscope bench` find what a plain loop finds? Both on one GPU, in turns, in one process.

    python benchmarks/ceilings.py --out benchmarks/results/ceilings.json

The plain loop is written here from scratch and shares nothing with the product: calls queued
behind a spinning kernel, one pair of CUDA events around ten of them (copies: around each one, as
ten would not fit a short burst). The product's figure is the median of its named ranges under the
profiler. Large calls only, where the gaps between kernels that events include (about 1 µs) do not
count. Exit code 1 if one differs by more than 3 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

LIMIT = 0.03
ROUNDS = 5
REST_S = 0.15
"""After each burst, so that the power limit does not lower the clock in the next one."""


def plain_cases() -> dict[str, tuple[Callable[[], Callable[[], object]], int]]:
    """Name: (maker of the call, calls between two events)."""
    from torch.nn import functional

    def matmul(dtype: torch.dtype, n: int) -> Callable[[], Callable[[], object]]:
        def make() -> Callable[[], object]:
            a = torch.randn(n, n, device="cuda", dtype=dtype)
            b = torch.randn(n, n, device="cuda", dtype=dtype)
            return lambda: torch.mm(a, b)

        return make

    def attention(backward: bool) -> Callable[[], Callable[[], object]]:
        def make() -> Callable[[], object]:
            q, k, v = (
                torch.randn(4, 2048, 32, 128, device="cuda", dtype=torch.bfloat16)
                .transpose(1, 2)
                .requires_grad_(backward)
                for _ in range(3)
            )
            forward = lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # noqa: E731
            if not backward:
                return forward
            out = forward()
            grad = torch.randn_like(out)
            return lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)

        return make

    def memory(op: str) -> Callable[[], Callable[[], object]]:
        def make() -> Callable[[], object]:
            x = torch.randn(1 << 30, device="cuda")
            half = x.numel() // 2
            if op == "read":
                return lambda: torch.sum(x)
            if op == "write":
                return lambda: x.fill_(1.0)
            return lambda: x[:half].copy_(x[half:])

        return make

    def transfer(to_device: bool) -> Callable[[], Callable[[], object]]:
        def make() -> Callable[[], object]:
            host = torch.full((1 << 28,), 7, dtype=torch.uint8).pin_memory()
            here = torch.randint(0, 255, (1 << 28,), dtype=torch.uint8, device="cuda")
            if to_device:
                return lambda: here.copy_(host, non_blocking=True)
            return lambda: host.copy_(here, non_blocking=True)

        return make

    return {
        "matmul_bf16_8192": (matmul(torch.bfloat16, 8192), 10),
        "matmul_bf16_4096": (matmul(torch.bfloat16, 4096), 10),
        "matmul_fp32_4096": (matmul(torch.float32, 4096), 10),
        "attention_forward": (attention(False), 10),
        "attention_backward": (attention(True), 5),
        "memory_read": (memory("read"), 5),
        "memory_write": (memory("write"), 5),
        "memory_copy": (memory("copy"), 5),
        "host_to_device": (transfer(True), 4),
        "device_to_host": (transfer(False), 4),
    }


def product_cases() -> dict[str, Any]:
    """The same calls as the product's benches make them."""
    from gpuscope.measurement.bench import attention, matmul, transfers, working_set

    sizes = attention.square(4, 32, 2048, 128)
    return {
        "matmul_bf16_8192": matmul.product("bf16", "NN", 8192, 8192, 8192, "square"),
        "matmul_bf16_4096": matmul.product("bf16", "NN", 4096, 4096, 4096, "square"),
        "matmul_fp32_4096": matmul.product("fp32", "NN", 4096, 4096, 4096, "square"),
        "attention_forward": attention.case("fwd", "bf16", sizes, causal=True),
        "attention_backward": attention.case("bwd", "bf16", sizes, causal=True),
        "memory_read": working_set.case("ws_read", 4096),
        "memory_write": working_set.case("ws_write", 4096),
        "memory_copy": working_set.case("ws_copy", 4096),
        "host_to_device": transfers.case("h2d_pinned", 1 << 28),
        "device_to_host": transfers.case("d2h_pinned", 1 << 28),
    }


def plain_s(make: Callable[[], Callable[[], object]], calls: int) -> float:
    """Seconds a call, by events around some calls that wait behind a spinning kernel."""
    torch.backends.cuda.matmul.allow_tf32 = False
    call = make()
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(2_000_000)
    start.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e-3 / calls


def product_s(timer: Any, case: Any) -> tuple[float, float | None]:
    """Seconds a call as the product finds them, and the share of the limit."""
    from dataclasses import replace

    hot = replace(case, states=("hot",))
    (point,) = timer.run("ceilings", [hot], done=frozenset(), deadline_s=float("inf"))
    return point.median_s, point.fraction


def main() -> int:
    """Measure both in turns and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    from gpuscope.measurement.accelerator import choose_accelerator
    from gpuscope.measurement.bench.harness import KernelTimer
    from gpuscope.measurement.bench.machine import facts
    from gpuscope.measurement.bench.run import check_profiler
    from gpuscope.measurement.sensors import open_sensor

    accelerator = choose_accelerator()
    check_profiler(accelerator)
    sensor = open_sensor(accelerator.index)
    timer = KernelTimer(accelerator, accelerator.catalogue_device(), sensor)
    ours = product_cases()
    rows = []
    for name, (make, calls) in plain_cases().items():
        plain, product, fraction = [], [], None
        for _ in range(ROUNDS):
            plain.append(plain_s(make, calls))
            time.sleep(REST_S)
            seconds, fraction = product_s(timer, ours[name])
            product.append(seconds)
            time.sleep(REST_S)
        torch.cuda.empty_cache()
        a, b = statistics.median(plain), statistics.median(product)
        rows.append(
            {
                "name": name,
                "loop_s": a,
                "bench_s": b,
                "difference": b / a - 1,
                "fraction_of_limit": fraction,
                "loop_samples_s": plain,
                "bench_samples_s": product,
            }
        )
        sys.stdout.write(
            f"{name:20} loop {a * 1e6:10.2f} us  bench {b * 1e6:10.2f} us  {b / a - 1:+.2%}\n"
        )
    worst = max(abs(row["difference"]) for row in rows)
    sys.stdout.write(f"worst {worst:.2%}, limit {LIMIT:.0%}\n")
    if args.out is not None:
        machine = facts(accelerator, sensor)
        machine.pop("host", None)
        machine.pop("uuid", None)
        document = {"limit": LIMIT, "worst": worst, "machine": machine, "rows": rows}
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
