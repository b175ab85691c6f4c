"""Copies between host and device: pinned and pageable, one and two directions, beside compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from gpuscope.document.text import Text
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import BenchCase, Make
from gpuscope.measurement.bench.inputs import randn
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point, Value

SIZES = (
    1 << 28,
    1 << 24,
    1 << 20,
    1 << 16,
    1 << 12,
    1 << 30,
    1 << 26,
    1 << 22,
    1 << 18,
    1 << 14,
    1 << 10,
)
"""1 KiB to 1 GiB, a large one first."""

KINDS = ("h2d_pinned", "d2h_pinned", "h2d_pageable", "d2h_pageable", "d2d")
BESIDE_BYTES = 1 << 28
"""Size of the copies beside compute: about 5 ms over PCIe 5."""

MATMUL, MATMULS = 8192, 4
"""A little longer than the copy beside it, on a current data-centre GPU."""


@bench("transfers", title=Text("Copies between host and device"), quick_s=5, full_s=14, order=6)
def transfers(context: Context) -> Iterator[Point]:
    """Measure copies."""
    yield from context.time("transfers", cases(context.quick))


def cases(quick: bool) -> Iterator[BenchCase]:
    """All cases, hot only: caches play no part in a link's speed."""
    for size in SIZES[:5] if quick else SIZES:
        for kind in KINDS:
            yield case(kind, size)
        yield case("both_pinned", size)
    for copy in ("h2d_pinned", "d2h_pinned"):
        yield from beside_compute(copy)


def case(kind: str, size: int) -> BenchCase:
    """Return a copy of `size` bytes.

    Args:
        kind: direction and host memory: see `KINDS`; "both_pinned" copies `size` bytes each way
            at once, on two streams, and takes from the first start to the last end.
        size: bytes, one way.
    """
    params: dict[str, Value] = {"op": kind, "bytes": size}
    if kind == "d2d":
        return BenchCase("transfer", params, _within(size), ("hot",), 6, bytes=2.0 * size)
    both = kind == "both_pinned"
    return BenchCase(
        "transfer",
        params,
        _both(size) if both else _copy(kind, size),
        ("hot",),
        6,
        bytes=float(2 * size if both else size),
        timed="span" if both else "sum",
        link_bytes=float(size),
    )


def _bytes(size: int, device: str) -> torch.Tensor:
    return torch.randint(0, 255, (size,), dtype=torch.uint8, device=device)


def _host(size: int, device: str, *, pinned: bool) -> torch.Tensor:
    """Host memory that has been touched; what it holds does not matter to a link."""
    host = torch.full((size,), 7, dtype=torch.uint8)
    return host.pin_memory() if pinned and device != "meta" else host


def _within(size: int) -> Make:
    def make(device: str) -> Callable[[], object]:
        here = _bytes(size, device)
        there = torch.empty_like(here)
        return lambda: there.copy_(here)

    return make


def _copy(kind: str, size: int) -> Make:
    pinned = kind.endswith("pinned")

    def make(device: str) -> Callable[[], object]:
        here, host = _bytes(size, device), _host(size, device, pinned=pinned)
        if kind.startswith("h2d"):
            return lambda: here.copy_(host, non_blocking=True)
        return lambda: host.copy_(here, non_blocking=pinned)

    return make


def _both(size: int) -> Make:
    def make(device: str) -> Callable[[], object]:
        to, back = _bytes(size, device), _bytes(size, device)
        source, target = (_host(size, device, pinned=True) for _ in range(2))
        return _side_by_side(
            device,
            lambda: to.copy_(source, non_blocking=True),
            lambda: target.copy_(back, non_blocking=True),
        )

    return make


def _side_by_side(
    device: str, first: Callable[[], object], second: Callable[[], object]
) -> Callable[[], object]:
    """Run two calls on two streams between whole waits of the current stream."""
    if device == "meta":
        return lambda: (first(), second())
    module = getattr(torch, torch.device(device).type)
    streams = module.Stream(device), module.Stream(device)

    def call() -> None:
        current = module.current_stream(device)
        for stream, work in zip(streams, (first, second), strict=True):
            stream.wait_stream(current)
            with module.stream(stream):
                work()
        for stream in streams:
            current.wait_stream(stream)

    return call


def beside_compute(copy: str) -> Iterator[BenchCase]:
    """Yield a copy while matrix products run, these while it runs, and these alone."""
    flops = 2.0 * MATMUL**3 * MATMULS
    for beside, timed in ((copy, "copies"), (copy, "kernels"), ("none", "kernels")):
        params: dict[str, Value] = {
            "copy": beside,
            "bytes": BESIDE_BYTES,
            "matmul": MATMUL,
            "matmuls": MATMULS,
            "timed": timed,
        }
        if timed == "copies":
            yield BenchCase(
                "transfer_beside_compute",
                params,
                _beside(beside),
                ("hot",),
                6,
                bytes=float(BESIDE_BYTES),
                timed=timed,
                link_bytes=float(BESIDE_BYTES),
            )
        else:
            yield BenchCase(
                "transfer_beside_compute",
                params,
                _beside(beside),
                ("hot",),
                6,
                dtype="bf16",
                flops=flops,
                timed=timed,
            )


def _beside(copy: str) -> Make:
    def make(device: str) -> Callable[[], object]:
        a, b = (randn(MATMUL, MATMUL, dtype=torch.bfloat16, device=device) for _ in range(2))
        out = torch.empty_like(a)

        def compute() -> None:
            for _ in range(MATMULS):
                torch.mm(a, b, out=out)

        if copy == "none":
            return compute
        return _side_by_side(device, _copy(copy, BESIDE_BYTES)(device), compute)

    return make
