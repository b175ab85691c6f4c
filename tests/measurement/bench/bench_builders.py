"""Made-up benches for the tests of what is done with them."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.measurement.bench.types import BenchResult, BenchRun, KernelTime, Point

MACHINE = {
    "device": "NVIDIA H200",
    "driver": "580.1",
    "torch": "2.11.0",
    "cuda": "13.0",
    "processor": "Test CPU",
    "processors": "16",
    "host": "node7",
    "l2_bytes": "52428800",
}


def kernel(name: str, seconds: float) -> KernelTime:
    return KernelTime(name, "kernel", 1, seconds, seconds, seconds, None, "132x1x1", "128x1x1", 168)


def point(
    bench: str, family: str, params: dict, seconds: float, state: str = "hot", **more
) -> Point:
    given = {
        "min_s": seconds * 0.99,
        "p90_s": seconds * 1.01,
        "n": 8,
        "kernels": (kernel(f"{family}_kernel", seconds),),
        "sm_clock_hz": 1.98e9,
    } | more
    return Point(bench, family, params, state, seconds, **given)


def square(n: int, tflops: float, dtype: str = "bf16") -> Point:
    flops = 2.0 * n**3
    params = {"dtype": dtype, "layout": "NN", "m": n, "n": n, "k": n, "set": "square"}
    return point(
        "matmul",
        "mm",
        params,
        flops / tflops / 1e12,
        flops=flops,
        bytes=6.0 * n * n,
        bound="compute",
        bound_s=flops / 989.5e12,
    )


def working_set(op: str, mib: float, tb_per_s: float) -> Point:
    nbytes = mib * 2**20
    in_memory = mib > 50
    return point(
        "memory",
        "working_set",
        {"op": op, "dtype": "fp32", "mib": mib},
        nbytes / tb_per_s / 1e12,
        bytes=nbytes,
        bound="memory" if in_memory else "cache",
        bound_s=nbytes / 4.8e12 if in_memory else None,
    )


def copy(op: str, size: int, gb_per_s: float) -> Point:
    return point(
        "transfers",
        "transfer",
        {"op": op, "bytes": size},
        size / gb_per_s / 1e9,
        bytes=float(size),
        bound="link",
        bound_s=size / 64e9,
    )


def dispatch(name: str, seconds: float) -> Point:
    return point("host", "op", {"name": name, "variant": "no_grad"}, seconds, "host", kernels=())


def result(**changes) -> BenchResult:
    """A small bench of an H200."""
    points = (
        *(square(n, t) for n, t in ((8192, 791.6), (4096, 700.0), (1024, 400.0))),
        square(8192, 400.0, "tf32"),
        *(
            working_set(op, m, r)
            for op, m, r in (
                ("ws_copy", 16, 6.2),
                ("ws_copy", 4096, 4.28),
                ("ws_read", 4096, 4.416),
            )
        ),
        copy("h2d_pinned", 1 << 28, 55.5),
        copy("h2d_pageable", 1 << 28, 10.0),
        dispatch("add", 4.1e-6),
        point(
            "power",
            "power",
            {"load": "idle_with_context", "duty": 1.0},
            1.0,
            "steady",
            values={"power_w": 115.0},
            kernels=(),
        ),
        point(
            "power",
            "power",
            {"load": "matmul_bf16", "duty": 1.0},
            1.1e12 / 671e12,
            "steady",
            values={"power_w": 687.0},
            kernels=(),
            flops=1.1e12,
            sm_clock_hz=1.49e9,
            throttled=("software power cap",),
        ),
    )
    made = BenchResult(
        MACHINE,
        "nvidia-h200-sxm",
        points,
        runs=(BenchRun("matmul", 1.5, 4),),
        started="2026-11-21T00:00:00+00:00",
        seconds=12.5,
    )
    return replace(made, **changes)


def slowed(made: BenchResult, bench: str, factor: float, clock: float = 1.0) -> BenchResult:
    """The same machine with one bench slower by a factor, at a share of the clock."""
    return replace(
        made,
        points=tuple(
            replace(
                p,
                median_s=p.median_s * factor,
                min_s=p.min_s * factor,
                p90_s=p.p90_s * factor,
                sm_clock_hz=p.sm_clock_hz * clock,
            )
            if p.bench == bench
            else p
            for p in made.points
        ),
    )
