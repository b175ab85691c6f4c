"""Scaled dot-product attention: forward, backward, decode; PyTorch's choice and forced ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from gpuscope.document.text import Text
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import BenchCase
from gpuscope.measurement.bench.inputs import DTYPES, randn
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point, Value

REST = 1.0
_MOST_CACHE_BYTES = 20e9
"""Keys and values of one decode case at most."""


@bench("attention", title=Text("Attention"), quick_s=4, full_s=26, order=20)
def attention(context: Context) -> Iterator[Point]:
    """Measure attention."""
    yield from context.time("attention", cases(context.quick), rest=REST)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Batch, query heads, key heads, query length, key length, head dimension."""

    b: int
    h: int
    hkv: int
    sq: int
    skv: int
    d: int


def square(b: int, h: int, s: int, d: int) -> Sizes:
    """Return sizes with as many keys as queries and no shared heads."""
    return Sizes(b, h, h, s, s, d)


def cases(quick: bool) -> Iterator[BenchCase]:
    """All cases, those that show most first; `quick` keeps a few of each kind."""
    lengths = ((8, 1024), (4, 2048), (1, 8192))
    for b, s in lengths[1:] if quick else lengths:
        for direction in ("fwd", "bwd"):
            for causal in (True, False):
                yield case(direction, "bf16", square(b, 32, s, 128), causal=causal)
            if not quick:
                yield case(direction, "fp16", square(b, 32, s, 128), causal=True)
    for direction in ("fwd", "bwd"):
        yield case(direction, "bf16", square(8, 12, 1024, 64), causal=True)
        yield case(direction, "fp32", square(8, 12, 1024, 64), causal=True)
    for b, skv in ((1, 4096), (64, 4096)):
        yield case("fwd", "bf16", Sizes(b, 32, 8, 1, skv, 128), gqa="enable")
    if not quick:
        yield from _decode()
        yield from _variants()
        yield from _grid()


def case(
    direction: str,
    dtype: str,
    sizes: Sizes,
    *,
    causal: bool = False,
    mask: str = "none",
    gqa: str = "none",
    dropout: float = 0.0,
    backend: str = "default",
) -> BenchCase:
    """Return one case.

    Args:
        direction: "fwd" or "bwd" (alone).
        dtype: of all tensors.
        sizes: see `Sizes`.
        causal: only keys up to the query's place.
        mask: "none", "bool" or "float".
        gqa: how shared key heads are given: "none", "enable" (PyTorch's option), "expand".
        dropout: share of weights that are dropped.
        backend: "default", or a name of `torch.nn.attention.SDPBackend`.
    """
    s = sizes

    def make(device: str) -> Callable[[], object]:
        q, k, v, bias = _tensors(s, dtype, gqa, mask, device)
        for t in (q, k, v):
            t.requires_grad_(direction == "bwd")
        kind: dict[str, Any] = {"enable_gqa": True} if gqa == "enable" else {}

        def forward() -> torch.Tensor:
            with _backend(backend):
                return functional.scaled_dot_product_attention(
                    q, k, v, attn_mask=bias, is_causal=causal, dropout_p=dropout, **kind
                )

        if direction == "fwd":
            return forward
        out = forward()
        grad = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)

    params: dict[str, Value] = {
        "dir": direction,
        "dtype": dtype,
        "b": s.b,
        "h": s.h,
        "hkv": s.hkv,
        "sq": s.sq,
        "skv": s.skv,
        "d": s.d,
        "causal": causal,
        "mask": mask,
        "gqa": gqa,
        "p": dropout,
        "backend": backend,
    }
    return BenchCase(
        "sdpa",
        params,
        make,
        repetitions=6,
        dtype=dtype,
        flops=flops(direction, s, causal),
        bytes=_least_bytes(direction, s, DTYPES[dtype].itemsize),
    )


def flops(direction: str, s: Sizes, causal: bool) -> float:
    """Arithmetic of the products alone: 4 b h sq skv d forward, 2.5 times that backward.

    The convention of the FlashAttention-2 paper (Dao, 2023, section 4.1): half for causal.
    """
    forward = 4.0 * s.b * s.h * s.sq * s.skv * s.d * (0.5 if causal else 1.0)
    return forward * (2.5 if direction == "bwd" else 1.0)


def _least_bytes(direction: str, s: Sizes, item: int) -> float:
    """Queries, keys, values, output once each; backward also their gradients."""
    once = item * s.b * s.d * (2 * s.h * s.sq + 2 * s.hkv * s.skv)
    return float(once * (2 if direction == "bwd" else 1))


def _tensors(
    s: Sizes, dtype: str, gqa: str, mask: str, device: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    q = _heads(s.b, s.h, s.sq, s.d, dtype, device)
    k, v = (_heads(s.b, s.hkv, s.skv, s.d, dtype, device) for _ in range(2))
    if gqa == "expand":
        k, v = (
            t[:, :, None].expand(s.b, s.hkv, s.h // s.hkv, s.skv, s.d).reshape(s.b, s.h, s.skv, s.d)
            for t in (k, v)
        )
    bias = None
    if mask == "bool":
        bias = torch.rand(s.b, 1, s.sq, s.skv, device=device) > 0.1
    elif mask == "float":
        bias = randn(s.b, 1, s.sq, s.skv, dtype=DTYPES[dtype], device=device)
    return q, k, v, bias


def _heads(batch: int, heads: int, seq: int, dim: int, dtype: str, device: str) -> torch.Tensor:
    """[batch, heads, seq, dim] as models make it: a transposed view of [batch, seq, heads, dim]."""
    return randn(batch, seq, heads, dim, dtype=DTYPES[dtype], device=device).transpose(1, 2)


def _backend(name: str) -> AbstractContextManager[object]:
    if name == "default":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(getattr(SDPBackend, name))


def _decode() -> Iterator[BenchCase]:
    for h, hkv, gqa in ((32, 8, "enable"), (32, 32, "none"), (12, 12, "none"), (32, 8, "expand")):
        for skv in (512, 4096, 1024, 8192, 32768, 128, 2048):
            for b in (1, 8, 64):
                d = 64 if h == 12 else 128
                if b * h * skv * d * 4 > _MOST_CACHE_BYTES:
                    continue
                if gqa == "expand" and skv not in (512, 4096):
                    continue
                yield case("fwd", "bf16", Sizes(b, h, hkv, 1, skv, d), gqa=gqa)
    for skv in (512, 4096):
        for b in (1, 16):
            for mask in ("bool", "float"):
                for gqa in ("expand", "enable"):
                    yield case("fwd", "bf16", Sizes(b, 32, 8, 1, skv, 128), mask=mask, gqa=gqa)
            yield case("fwd", "fp32", Sizes(b, 12, 12, 1, skv, 64))


def _variants() -> Iterator[BenchCase]:
    for direction in ("fwd", "bwd"):
        for b, s in ((8, 512), (4, 2048), (1, 8192)):
            for gqa in ("enable", "expand"):
                yield case(direction, "bf16", Sizes(b, 32, 8, s, s, 128), causal=True, gqa=gqa)
            for mask in ("bool", "float"):
                for dtype in ("bf16", "fp32")[: 1 if s > 4096 else 2]:
                    yield case(direction, dtype, square(b, 12, s, 64), mask=mask)
            yield case(direction, "bf16", square(b, 12, s, 64), causal=True, dropout=0.1)
        yield from _backends(direction)
        # vision and speech: token counts that no tile divides
        for b, h, s, d in (
            (64, 12, 197, 64),
            (16, 16, 257, 80),
            (16, 20, 1500, 64),
            (64, 3, 49, 32),
            (8, 8, 4096, 40),
        ):
            for dtype in ("bf16", "fp32"):
                yield case(direction, dtype, square(b, h, s, d))
        yield case(direction, "bf16", Sizes(16, 20, 20, 448, 1500, 64))


def _backends(direction: str) -> Iterator[BenchCase]:
    """Kernels that PyTorch would not choose here, and does on other devices or versions."""
    for b, s in ((8, 1024), (2, 4096)):
        for backend in ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
            for d, h in ((64, 12), (128, 16)):
                yield case(direction, "bf16", square(b, h, s, d), causal=True, backend=backend)
        for backend in ("EFFICIENT_ATTENTION", "MATH"):
            yield case(direction, "fp32", square(b, 12, s, 64), causal=True, backend=backend)
    for h, d in ((12, 64), (32, 128)):
        for s, b in ((512, 16), (2048, 4), (8192, 1)):
            for causal in (True, False):
                yield case(
                    direction, "bf16", square(b, h, s, d), causal=causal, backend="FLASH_ATTENTION"
                )


def _grid() -> Iterator[BenchCase]:
    for dtype, most in (("bf16", 16384), ("fp32", 4096), ("fp16", 4096)):
        widths = ((128, 32), (64, 12), (80, 20), (96, 16), (256, 8))
        for d, h in widths if dtype == "bf16" else widths[:2]:
            for s in (256, 1024, 4096, 16384, 512, 2048, 128, 8192)[:: 1 if dtype == "bf16" else 2]:
                for b in sorted({1, max(1, 8192 // s), min(64, max(1, 32768 // s))}):
                    rare = d in (80, 96, 256) or dtype != "bf16"
                    if s > most or (rare and b == 1):
                        continue
                    for causal in (True, False):
                        if rare and not causal and s > 1024:
                            continue
                        for direction in ("fwd", "bwd"):
                            yield case(direction, dtype, square(b, h, s, d), causal=causal)
