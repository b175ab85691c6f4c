"""Memory bandwidth by working set: the caches, then device memory; read, written, copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from gpuscope.document.text import Text
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import BenchCase
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point, Value

MIB = 1024 * 1024
QUICK_MIB = (4, 16, 32, 64, 256, 1024, 4096)
FULL_MIB = (
    4096,
    1024,
    256,
    64,
    32,
    16,
    4,
    1,
    2,
    8,
    12,
    20,
    24,
    28,
    36,
    40,
    44,
    48,
    52,
    56,
    60,
    72,
    80,
    96,
    128,
    192,
    384,
    512,
    2048,
)


@bench("memory", title=Text("Memory by working set"), quick_s=3, full_s=8, order=5)
def memory(context: Context) -> Iterator[Point]:
    """Measure bandwidth."""
    yield from context.time("memory", cases(context.quick))


def cases(quick: bool) -> Iterator[BenchCase]:
    """Each size read, written and copied (half of it to the other half), hot and cold."""
    for mib in QUICK_MIB if quick else FULL_MIB:
        for op in ("ws_read", "ws_write", "ws_copy"):
            yield case(op, mib)


def case(op: str, mib: float) -> BenchCase:
    """Return one call.

    Args:
        op: "ws_read" (sum), "ws_write" (fill) or "ws_copy".
        mib: bytes touched, in MiB: a copy reads half of it and writes half.
    """
    elements = int(mib * MIB / 4)

    def make(device: str) -> Callable[[], object]:
        x = torch.randn(elements, device=device)
        half = elements // 2
        if op == "ws_read":
            return lambda: torch.sum(x)
        if op == "ws_write":
            return lambda: x.fill_(1.0)
        return lambda: x[:half].copy_(x[half : 2 * half])

    params: dict[str, Value] = {"op": op, "dtype": "fp32", "mib": mib}
    return BenchCase("working_set", params, make, bytes=float(elements * 4))
