"""Optimizer steps, gradient clipping and zeroing, by parameter count and number of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from gpuscope.document.text import Text
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import BenchCase
from gpuscope.measurement.bench.inputs import DTYPES
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point, Value

KINDS: dict[str, tuple[str, dict[str, object], int]] = {
    "adamw_fused": ("AdamW", {"fused": True}, 7),
    "adamw_foreach": ("AdamW", {"foreach": True}, 7),
    "sgd_momentum_foreach": ("SGD", {"lr": 1e-3, "momentum": 0.9, "foreach": True}, 5),
    "clip_grad_norm": ("", {}, 3),
    "zero_grad": ("", {}, 1),
    "sgd_momentum_fused": ("SGD", {"lr": 1e-3, "momentum": 0.9, "fused": True}, 5),
    "adam_foreach": ("Adam", {"foreach": True}, 7),
    "sgd_foreach": ("SGD", {"lr": 1e-3, "foreach": True}, 3),
    "adamw_single": ("AdamW", {"foreach": False, "fused": False}, 7),
}
"""Class, options, and how often each element must be read or written: AdamW reads a parameter,
its gradient and two moments, and writes all but the gradient."""

CHUNK = 30
"""Calls a profiler session: one call can make thousands of kernels."""


@bench("optimizers", title=Text("Optimizer steps"), quick_s=3, full_s=15, order=70)
def optimizers(context: Context) -> Iterator[Point]:
    """Measure optimizer steps."""
    yield from context.time("optimizers", cases(context.quick), chunk=CHUNK)


def cases(quick: bool) -> Iterator[BenchCase]:
    """All cases; `quick` keeps three kinds with a hundred million parameters in a hundred tensors.

    Each number of parameters in one tensor up to 300; the for-loop only where it ends in time.
    """
    if quick:
        for kind in list(KINDS)[:3]:
            yield case(kind, 10**8, 100, "fp32")
        return
    for total in (10**8, 10**7, 10**6, 10**9, 10**5):
        for tensors in (100, 10, 1, 300):
            for kind in KINDS:
                loop = kind == "adamw_single"
                if loop and (tensors > 100 or total > 10**8 or (tensors == 100 and total != 10**7)):
                    continue
                for dtype in ("fp32", "bf16") if tensors == 100 and total >= 10**7 else ("fp32",):
                    yield case(kind, total, tensors, dtype)


def case(kind: str, total: int, tensors: int, dtype: str) -> BenchCase:
    """Return one step over `total` parameters in `tensors` equal tensors."""
    params: dict[str, Value] = {"op": kind, "dtype": dtype, "total": total, "tensors": tensors}
    elements = total // tensors * tensors
    return BenchCase(
        "optimizer",
        params,
        lambda device: _call(kind, total, tensors, DTYPES[dtype], device),
        ("cold",) if total >= 10**8 else ("hot", "cold"),
        4,
        bytes=float(KINDS[kind][2] * elements * DTYPES[dtype].itemsize),
    )


def _call(
    kind: str, total: int, tensors: int, dtype: torch.dtype, device: str
) -> Callable[[], object]:
    parameters = []
    for _ in range(tensors):
        p = torch.nn.Parameter(torch.randn(total // tensors, dtype=dtype, device=device))
        p.grad = torch.randn_like(p)
        parameters.append(p)
    if kind == "clip_grad_norm":
        return lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    if kind == "zero_grad":
        optimizer = torch.optim.SGD(parameters, lr=1e-3)
        return lambda: optimizer.zero_grad(set_to_none=False)
    name, options, _ = KINDS[kind]
    step: Callable[[], object] = getattr(torch.optim, name)(parameters, **options).step
    return step
