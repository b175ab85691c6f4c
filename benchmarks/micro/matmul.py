"""Matrix products in the layouts of training: NT (linear forward), NN, TN (weight gradient)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import torch
from harness import DTYPES, Point, randn

LAYERS = (
    (768, 768), (2304, 768), (3072, 768), (768, 3072), (1024, 1024), (4096, 1024), (2048, 2048),
    (4096, 4096), (6144, 4096), (14336, 4096), (4096, 14336), (5120, 5120), (13824, 5120),
    (8192, 8192), (28672, 8192), (8192, 28672), (16384, 16384), (50257, 768), (50304, 768),
    (32000, 4096),
    (128256, 4096),
)  # fmt: skip
"""(out features, in features) of layers of GPT-2, Llama 7B to 405B, BERT, with vocabulary heads."""
TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
SQUARES = (
    64, 96, 128, 192, 256, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120,
    6144, 8192,
)  # fmt: skip
ODD = (
    (777, 777, 777), (1000, 1000, 1000), (4096, 3, 4096), (3, 4096, 4096), (4096, 4096, 3),
    (777, 4096, 4096), (4096, 777, 4096), (4096, 4096, 777), (4095, 4095, 4095), (4097, 4097, 4097),
    (64, 1000, 2048), (256, 1000, 2048), (1024, 1000, 768), (8192, 50257, 1024), (1023, 50257, 768),
    (512, 10, 784), (128, 1, 1024), (65536, 1, 64), (65536, 64, 64), (1000000, 64, 32),
    (1000000, 3, 64), (32, 32, 1000000), (64, 64, 65536), (16, 16, 16), (1, 1, 4096), (1, 128, 64),
    (100, 100, 100), (2048, 512, 479), (2048, 1024, 13), (2047, 4093, 1021),
)  # fmt: skip


def _call(
    layout: str, m: int, n: int, k: int, dtype: torch.dtype, tf32: bool = False
) -> Callable[[str], Callable[[], object]]:
    def make(device: str) -> Callable[[], object]:
        a = randn(m, k, dtype=dtype, device=device) if layout[0] == "N" else None
        a = a if a is not None else randn(k, m, dtype=dtype, device=device).t()
        b = randn(k, n, dtype=dtype, device=device) if layout[1] == "N" else None
        b = b if b is not None else randn(n, k, dtype=dtype, device=device).t()

        def call() -> object:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            return torch.mm(a, b)

        return call

    return make


def _point(dtype: str, layout: str, m: int, n: int, k: int, group: str) -> Point:
    real = DTYPES["fp32" if dtype == "tf32" else dtype]
    params = {"dtype": dtype, "layout": layout, "m": m, "n": n, "k": k, "set": group}
    states = ("hot", "cold", "cold_clean") if group == "square" else ("hot", "cold")
    return Point("mm", params, _call(layout, m, n, k, real, dtype == "tf32"), states)


def _linear_shapes(layout: str, tokens: int, out: int, inner: int) -> tuple[int, int, int]:
    """(M, N, K) of a linear layer's forward (NT), data gradient (NN) or weight gradient (TN)."""
    return {
        "NT": (tokens, out, inner), "NN": (tokens, inner, out), "TN": (out, inner, tokens),
    }[layout]  # fmt: skip


def _random_shapes(count: int, seed: int, limit_flops: float) -> Iterator[tuple[int, int, int]]:
    """Log-uniform shapes, two thirds of them multiples of 8: a set to hold out when fitting."""
    draw = random.Random(seed)
    made = 0
    while made < count:
        sizes = [int(2 ** draw.uniform(4, 15)) for _ in range(3)]
        if draw.random() < 2 / 3:
            sizes = [(s + 7) // 8 * 8 for s in sizes]
        m, n, k = sizes
        if 2.0 * m * n * k <= limit_flops:
            made += 1
            yield m, n, k


def _dtype_set(
    dtype: str,
    tokens: tuple[int, ...],
    layers: tuple[tuple[int, int], ...],
    limit: float,
    extra: int,
) -> Iterator[Point]:
    for out, inner in layers:
        for t in tokens:
            for layout in ("NT", "NN", "TN"):
                m, n, k = _linear_shapes(layout, t, out, inner)
                if 2.0 * m * n * k <= limit:
                    yield _point(dtype, layout, m, n, k, "layer")
    for s in SQUARES[::2]:
        if 2.0 * s**3 <= limit:
            yield _point(dtype, "NN", s, s, s, "square")
    for m, n, k in ODD[::3]:
        if 2.0 * m * n * k <= limit:
            yield _point(dtype, "NT", m, n, k, "odd")
    for m, n, k in _random_shapes(extra, 7, limit):
        yield _point(dtype, "NT", m, n, k, "random")


def _bf16() -> Iterator[Point]:
    for out, inner in LAYERS:
        for t in TOKENS:
            yield _point("bf16", "NT", *_linear_shapes("NT", t, out, inner), "layer")
        for t in (64, 512, 1024, 4096, 16384):
            for layout in ("NN", "TN"):
                yield _point("bf16", layout, *_linear_shapes(layout, t, out, inner), "layer")
    for s in SQUARES:
        yield _point("bf16", "NN", s, s, s, "square")
        yield _point("bf16", "NT", s, s, s, "square")
    for m, n, k in ODD:
        yield _point("bf16", "NT", m, n, k, "odd")
        yield _point("bf16", "NN", m, n, k, "odd")
    for i, (m, n, k) in enumerate(_random_shapes(200, 1, 4e12)):
        yield _point("bf16", ("NT", "NN", "TN")[i % 3], m, n, k, "random")


def _linear_bias() -> Iterator[Point]:
    for dtype in ("bf16", "fp32"):
        for out, inner in ((768, 768), (3072, 768), (4096, 4096), (1000, 2048), (50257, 768)):
            for t in (1, 16, 128, 1024, 8192):

                def make(
                    device: str, o: int = out, i: int = inner, t: int = t, d: str = dtype
                ) -> Callable[[], object]:
                    x = randn(t, i, dtype=DTYPES[d], device=device)
                    w = randn(o, i, dtype=DTYPES[d], device=device)
                    b = randn(o, dtype=DTYPES[d], device=device)

                    def call() -> object:
                        torch.backends.cuda.matmul.allow_tf32 = False
                        return torch.nn.functional.linear(x, w, b)

                    return call

                params = {"dtype": dtype, "layout": "NT", "m": t, "n": out, "k": inner}
                yield Point("linear_bias", params, make)


def _bmm() -> Iterator[Point]:
    shapes = [
        (b, s, s, d)
        for d in (64, 128)
        for b, s in ((12, 128), (96, 128), (96, 512), (96, 1024), (32, 2048), (32, 1), (512, 64))
    ] + [(b, s, d, s) for d in (64, 128) for b, s in ((12, 128), (96, 128), (96, 1024), (32, 2048))]
    shapes += [(2048, 27, 27, 64), (1024, 16, 16, 16), (64, 256, 256, 256), (8, 2048, 2048, 2048)]
    for dtype in ("bf16", "fp32"):
        for batch, m, n, k in shapes:
            for layout in ("NN", "NT"):

                def make(
                    device: str, batch: int = batch, m: int = m, n: int = n, k: int = k,
                    d: str = dtype, layout: str = layout,
                ) -> Callable[[], object]:  # fmt: skip
                    a = randn(batch, m, k, dtype=DTYPES[d], device=device)
                    if layout == "NN":
                        b = randn(batch, k, n, dtype=DTYPES[d], device=device)
                    else:
                        b = randn(batch, n, k, dtype=DTYPES[d], device=device).transpose(1, 2)

                    def call() -> object:
                        torch.backends.cuda.matmul.allow_tf32 = False
                        return torch.bmm(a, b)

                    return call

                params = {"dtype": dtype, "layout": layout, "b": batch, "m": m, "n": n, "k": k}
                yield Point("bmm", params, make)


def _eight_bit() -> Iterator[Point]:
    for m, n, k in ((1024, 1024, 1024), (4096, 4096, 4096), (8192, 8192, 8192), (32, 4096, 4096),
                    (512, 14336, 4096), (8192, 4096, 14336)):  # fmt: skip

        def make_int(device: str, m: int = m, n: int = n, k: int = k) -> Callable[[], object]:
            a = randn(m, k, dtype=torch.int8, device=device)
            b = randn(n, k, dtype=torch.int8, device=device).t()
            return lambda: torch._int_mm(a, b)

        yield Point("int_mm", {"dtype": "int8", "layout": "NT", "m": m, "n": n, "k": k}, make_int)
        for rowwise in (False, True):

            def make_fp8(
                device: str, m: int = m, n: int = n, k: int = k, rowwise: bool = rowwise
            ) -> Callable[[], object]:
                a = randn(m, k, dtype=torch.float8_e4m3fn, device=device)
                b = randn(n, k, dtype=torch.float8_e4m3fn, device=device).t()
                sa = torch.ones((m, 1) if rowwise else (), device=device)
                sb = torch.ones((1, n) if rowwise else (), device=device)
                return lambda: torch._scaled_mm(a, b, sa, sb, out_dtype=torch.bfloat16)

            params = {"dtype": "fp8", "layout": "NT", "m": m, "n": n, "k": k, "rowwise": rowwise}
            yield Point("scaled_mm", params, make_fp8)


def points(quick: bool) -> Iterator[Point]:
    """All matrix-product points; ``quick`` keeps the squares of bf16 only."""
    if quick:
        for s in SQUARES:
            yield _point("bf16", "NN", s, s, s, "square")
        return
    yield from _bf16()
    few = ((768, 768), (3072, 768), (4096, 4096), (14336, 4096), (50257, 768))
    yield from _dtype_set("fp32", (1, 16, 128, 1024, 4096, 16384), few, 1.2e12, 60)
    yield from _dtype_set("tf32", (1, 64, 1024, 8192), few, 2e12, 40)
    yield from _dtype_set("fp16", (1, 64, 2048), few[:4], 2e12, 20)
    yield from _linear_bias()
    yield from _bmm()
    yield from _eight_bit()
