"""Scaled dot-product attention: forward and backward, the default kernel choice and forced ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from harness import DTYPES, Point, Value, randn
from torch.nn import functional


def _heads(batch: int, heads: int, seq: int, dim: int, dtype: str, device: str) -> torch.Tensor:
    """[batch, heads, seq, dim] as models make it: a transposed view of [batch, seq, heads, dim]."""
    return randn(batch, seq, heads, dim, dtype=DTYPES[dtype], device=device).transpose(1, 2)


def _backend(name: str) -> Any:
    if name == "default":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(getattr(SDPBackend, name))


def attention_point(
    direction: str, dtype: str, b: int, h: int, hkv: int, sq: int, skv: int, d: int,
    causal: bool = False, mask: str = "none", gqa: str = "none", dropout: float = 0.0,
    backend: str = "default",
) -> Point:  # fmt: skip
    """One attention point; ``mask`` is none|bool|float, ``gqa`` none|enable|expand."""

    def make(device: str) -> Callable[[], object]:
        q = _heads(b, h, sq, d, dtype, device)
        k, v = (_heads(b, hkv, skv, d, dtype, device) for _ in range(2))
        if gqa == "expand":
            k, v = (
                t[:, :, None].expand(b, hkv, h // hkv, skv, d).reshape(b, h, skv, d) for t in (k, v)
            )
        bias = None
        if mask == "bool":
            bias = torch.rand(b, 1, sq, skv, device=device) > 0.1
        elif mask == "float":
            bias = randn(b, 1, sq, skv, dtype=DTYPES[dtype], device=device)
        kind: dict[str, Any] = {"enable_gqa": True} if gqa == "enable" else {}
        for t in (q, k, v):
            t.requires_grad_(direction == "bwd")

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
        "dir": direction, "dtype": dtype, "b": b, "h": h, "hkv": hkv, "sq": sq, "skv": skv,
        "d": d, "causal": causal, "mask": mask, "gqa": gqa, "p": dropout, "backend": backend,
    }  # fmt: skip
    return Point("sdpa", params, make, reps=6)


def _grid() -> Iterator[Point]:
    for dtype in ("bf16", "fp32", "fp16"):
        most = {"bf16": 16384, "fp32": 4096, "fp16": 4096}[dtype]
        step = 1 if dtype == "bf16" else 2
        for d, h in ((64, 12), (128, 32), (80, 20), (96, 16), (256, 8))[: 5 if step == 1 else 2]:
            for s in (128, 256, 512, 1024, 2048, 4096, 8192, 16384)[::step]:
                if s > most:
                    continue
                batches = {1, max(1, 8192 // s), min(64, max(1, 32768 // s))}
                for b in sorted(batches):
                    for causal in (True, False):
                        if (d in (80, 96, 256) or step == 2) and (
                            b == 1 or (not causal and s > 1024)
                        ):
                            continue
                        for direction in ("fwd", "bwd"):
                            yield attention_point(direction, dtype, b, h, h, s, s, d, causal)


def _variants() -> Iterator[Point]:
    for direction in ("fwd", "bwd"):
        for b, s in ((8, 512), (4, 2048), (1, 8192)):
            for gqa in ("enable", "expand"):
                yield attention_point(direction, "bf16", b, 32, 8, s, s, 128, causal=True, gqa=gqa)
            for mask in ("bool", "float"):
                for dtype in ("bf16", "fp32"):
                    if dtype == "fp32" and s > 4096:
                        continue
                    yield attention_point(direction, dtype, b, 12, 12, s, s, 64, mask=mask)
            yield attention_point(direction, "bf16", b, 12, 12, s, s, 64, True, dropout=0.1)
        for b, s in ((8, 1024), (2, 4096)):
            for backend in (
                "FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH",
            ):  # fmt: skip
                for d, h in ((64, 12), (128, 16)):
                    yield attention_point(
                        direction, "bf16", b, h, h, s, s, d, True, backend=backend
                    )
            for backend in ("EFFICIENT_ATTENTION", "MATH"):
                yield attention_point(direction, "fp32", b, 12, 12, s, s, 64, True, backend=backend)
        # flash attention on more shapes: what other versions of PyTorch choose by default
        for h, d in ((12, 64), (32, 128)):
            for s, count in ((512, 16), (2048, 4), (8192, 1)):
                for causal in (True, False):
                    yield attention_point(
                        direction, "bf16", count, h, h, s, s, d, causal, backend="FLASH_ATTENTION"
                    )
        # vision and speech: token counts that no tile divides
        for b, h, s, d in ((64, 12, 197, 64), (16, 16, 257, 80), (16, 20, 1500, 64),
                           (64, 3, 49, 32), (8, 8, 4096, 40), (2, 10, 4096, 64)):  # fmt: skip
            for dtype in ("bf16", "fp32"):
                yield attention_point(direction, dtype, b, h, h, s, s, d)
        yield attention_point(direction, "bf16", 16, 20, 20, 448, 1500, 64)


def _decode() -> Iterator[Point]:
    for h, hkv, gqa in ((32, 32, "none"), (32, 8, "enable"), (32, 8, "expand"), (12, 12, "none")):
        for skv in (128, 512, 1024, 2048, 4096, 8192, 32768):
            for b in (1, 8, 64):
                d = 64 if h == 12 else 128
                if b * h * skv * d * 4 > 40e9 or (gqa == "expand" and skv not in (512, 4096)):
                    continue
                yield attention_point("fwd", "bf16", b, h, hkv, 1, skv, d, gqa=gqa)
    for skv in (512, 4096):
        for b in (1, 16):
            for mask in ("bool", "float"):
                yield attention_point("fwd", "bf16", b, 32, 8, 1, skv, 128, mask=mask, gqa="expand")
                yield attention_point("fwd", "bf16", b, 32, 8, 1, skv, 128, mask=mask, gqa="enable")
            yield attention_point("fwd", "fp32", b, 12, 12, 1, skv, 64)


def points(quick: bool) -> Iterator[Point]:
    """All attention points; ``quick`` keeps a few forward shapes."""
    if quick:
        for s in (512, 2048):
            yield attention_point("fwd", "bf16", 4, 12, 12, s, s, 64, True)
            yield attention_point("bwd", "bf16", 4, 12, 12, s, s, 64, True)
        return
    yield from _decode()
    yield from _variants()
    yield from _grid()
