"""Matrix products by dtype and layout: layers, squares, skinny, odd, tiny, batched, 8-bit.

Layouts are those of training: NT (a linear layer's forward), NN (its data gradient) and TN (its
weight gradient). Squares come first: they show the ceiling.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import torch

from gpuscope.document.text import Text
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import BenchCase
from gpuscope.measurement.bench.inputs import DTYPES, randn
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point, Value

LAYERS = (
    (4096, 4096),
    (768, 768),
    (14336, 4096),
    (4096, 14336),
    (3072, 768),
    (768, 3072),
    (8192, 8192),
    (50257, 768),
    (2304, 768),
    (1024, 1024),
    (28672, 8192),
    (8192, 28672),
    (128256, 4096),
    (2048, 2048),
    (6144, 4096),
    (13824, 5120),
    (50304, 768),
)
"""(out features, in features) of layers of GPT-2, BERT and Llama 7B to 405B, with vocabularies."""

TOKENS = (1, 8, 64, 512, 4096, 16384, 2, 4, 16, 32, 128, 256, 1024, 2048, 8192)
SQUARES = (
    8192,
    4096,
    2048,
    1024,
    512,
    256,
    128,
    64,
    6144,
    3072,
    1536,
    768,
    384,
    96,
    5120,
    2560,
    1280,
    640,
    192,
)
ODD = (
    (777, 777, 777),
    (4095, 4095, 4095),
    (4096, 3, 4096),
    (3, 4096, 4096),
    (4096, 4096, 3),
    (16, 16, 16),
    (1, 1, 4096),
    (1, 128, 64),
    (1000, 1000, 1000),
    (777, 4096, 4096),
    (4096, 777, 4096),
    (4096, 4096, 777),
    (4097, 4097, 4097),
    (64, 1000, 2048),
    (256, 1000, 2048),
    (1024, 1000, 768),
    (8192, 50257, 1024),
    (1023, 50257, 768),
    (512, 10, 784),
    (128, 1, 1024),
    (65536, 1, 64),
    (65536, 64, 64),
    (1000000, 64, 32),
    (1000000, 3, 64),
    (32, 32, 1000000),
    (64, 64, 65536),
    (100, 100, 100),
    (2048, 512, 479),
    (2048, 1024, 13),
    (2047, 4093, 1021),
)
EIGHT_BIT = (
    (8192, 8192, 8192),
    (4096, 4096, 4096),
    (1024, 1024, 1024),
    (32, 4096, 4096),
    (512, 14336, 4096),
    (8192, 4096, 14336),
)
_ITEM_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
REST = 1.5
"""Matrix products draw the most power of all: see `harness`."""


@bench("matmul", title=Text("Matrix products"), quick_s=5, full_s=42, order=10)
def matmul(context: Context) -> Iterator[Point]:
    """Measure matrix products."""
    yield from context.time("matmul", cases(context.quick), rest=REST)


def cases(quick: bool) -> Iterator[BenchCase]:
    """All cases, those that show most first; `quick` keeps a few of each kind."""
    yield from _ceilings(quick)
    if quick:
        for tokens in (1, 64, 2048):
            yield product("bf16", "NT", tokens, 4096, 4096, "layer")
        for m, n, k in ODD[:6]:
            yield product("bf16", "NT", m, n, k, "odd")
        yield from batched(("bf16",), BATCHED[:3])
        return
    yield from _bf16()
    yield from batched(("bf16", "fp32"), BATCHED)
    yield from with_bias()
    few = ((768, 768), (3072, 768), (4096, 4096), (14336, 4096), (50257, 768))
    yield from _other("tf32", (1, 64, 1024, 8192), few, 2e12, 40)
    yield from _other("fp32", (1, 16, 128, 1024, 4096), few, 4e11, 50)
    yield from _other("fp16", (1, 64, 2048), few[:4], 2e12, 20)


def _ceilings(quick: bool) -> Iterator[BenchCase]:
    """Squares of every dtype: what the matrix unit reaches."""
    for size in SQUARES[:8] if quick else SQUARES:
        yield product("bf16", "NN", size, size, size, "square")
    for dtype in ("fp16", "tf32", "fp32"):
        for size in (8192, 4096, 1024) if quick else SQUARES[:8]:
            if dtype != "fp32" or size <= 4096 or not quick:
                yield product(dtype, "NN", size, size, size, "square")
    for m, n, k in EIGHT_BIT[:2] if quick else EIGHT_BIT:
        yield scaled(m, n, k, rowwise=False)
        yield scaled(m, n, k, rowwise=True)
        yield integer(m, n, k)


def product(dtype: str, layout: str, m: int, n: int, k: int, group: str) -> BenchCase:
    """Return [m, k] x [k, n], each operand stored as the layout says (T: transposed)."""
    real = DTYPES[dtype]

    def make(device: str) -> Callable[[], object]:
        a = _operand(layout[0], m, k, real, device)
        b = _operand(layout[1], k, n, real, device)

        def call() -> object:
            torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
            return torch.mm(a, b)

        return call

    params: dict[str, Value] = {
        "dtype": dtype,
        "layout": layout,
        "m": m,
        "n": n,
        "k": k,
        "set": group,
    }
    states = ("hot", "cold", "cold_clean") if group == "square" else ("hot", "cold")
    return _case("mm", params, make, states)


def _operand(stored: str, rows: int, columns: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    if stored == "N":
        return randn(rows, columns, dtype=dtype, device=device)
    return randn(columns, rows, dtype=dtype, device=device).t()


def _case(
    family: str,
    params: dict[str, Value],
    make: Callable[[str], Callable[[], object]],
    states: tuple[str, ...] = ("hot", "cold"),
    out_bytes: int | None = None,
) -> BenchCase:
    batch, m, n, k = (float(params.get(name, 1)) for name in ("b", "m", "n", "k"))
    dtype = str(params["dtype"])
    item = _ITEM_BYTES[dtype]
    return BenchCase(
        family,
        params,
        make,
        states,
        dtype=dtype,
        flops=2 * batch * m * n * k,
        bytes=batch * (item * (m * k + k * n) + (out_bytes or item) * m * n),
    )


def scaled(m: int, n: int, k: int, *, rowwise: bool) -> BenchCase:
    """Return an fp8 product with scales, of the whole operands or a row each, into bf16."""

    def make(device: str) -> Callable[[], object]:
        a = randn(m, k, dtype=torch.float8_e4m3fn, device=device)
        b = randn(n, k, dtype=torch.float8_e4m3fn, device=device).t()
        scale_a = torch.ones((m, 1) if rowwise else (), device=device)
        scale_b = torch.ones((1, n) if rowwise else (), device=device)
        return lambda: torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=torch.bfloat16)

    params: dict[str, Value] = {
        "dtype": "fp8",
        "layout": "NT",
        "m": m,
        "n": n,
        "k": k,
        "rowwise": rowwise,
    }
    return _case("scaled_mm", params, make, out_bytes=2)


def integer(m: int, n: int, k: int) -> BenchCase:
    """Return an int8 product into int32."""

    def make(device: str) -> Callable[[], object]:
        a = randn(m, k, dtype=torch.int8, device=device)
        b = randn(n, k, dtype=torch.int8, device=device).t()
        return lambda: torch._int_mm(a, b)

    params: dict[str, Value] = {"dtype": "int8", "layout": "NT", "m": m, "n": n, "k": k}
    return _case("int_mm", params, make, out_bytes=4)


def layer_shape(layout: str, tokens: int, out: int, inner: int) -> tuple[int, int, int]:
    """Return (m, n, k) of a linear layer's forward (NT), data gradient (NN), weight gradient."""
    return {"NT": (tokens, out, inner), "NN": (tokens, inner, out), "TN": (out, inner, tokens)}[
        layout
    ]


def random_shapes(count: int, seed: int, most_flops: float) -> Iterator[tuple[int, int, int]]:
    """Yield log-uniform (m, n, k), two thirds of them multiples of 8."""
    draw = random.Random(seed)
    made = 0
    while made < count:
        sizes = [int(2 ** draw.uniform(4, 15)) for _ in range(3)]
        if draw.random() < 2 / 3:
            sizes = [(s + 7) // 8 * 8 for s in sizes]
        m, n, k = sizes
        if 2.0 * m * n * k <= most_flops:
            made += 1
            yield m, n, k


def _bf16() -> Iterator[BenchCase]:
    for tokens in TOKENS:
        for out, inner in LAYERS:
            yield product("bf16", "NT", *layer_shape("NT", tokens, out, inner), "layer")
            if tokens in (64, 512, 1024, 4096, 16384) and out * inner < 2**28:
                for layout in ("NN", "TN"):
                    yield product("bf16", layout, *layer_shape(layout, tokens, out, inner), "layer")
        if tokens == 16384:  # half of the layers are done: now what else there is
            yield from _bf16_others()


def _bf16_others() -> Iterator[BenchCase]:
    for m, n, k in ODD:
        yield product("bf16", "NT", m, n, k, "odd")
    for i, (m, n, k) in enumerate(random_shapes(150, 1, 2e12)):
        yield product("bf16", ("NT", "NN", "TN")[i % 3], m, n, k, "random")
    for m, n, k in ODD[::2]:
        yield product("bf16", "NN", m, n, k, "odd")
    for size in SQUARES[::2]:
        yield product("bf16", "NT", size, size, size, "square")


def _other(
    dtype: str,
    tokens: tuple[int, ...],
    layers: tuple[tuple[int, int], ...],
    most_flops: float,
    extra: int,
) -> Iterator[BenchCase]:
    for out, inner in layers:
        for t in tokens:
            for layout in ("NT", "NN", "TN"):
                m, n, k = layer_shape(layout, t, out, inner)
                if 2.0 * m * n * k <= most_flops:
                    yield product(dtype, layout, m, n, k, "layer")
    for m, n, k in ODD[::3]:
        if 2.0 * m * n * k <= most_flops:
            yield product(dtype, "NT", m, n, k, "odd")
    for m, n, k in random_shapes(extra, 7, most_flops):
        yield product(dtype, "NT", m, n, k, "random")


def with_bias() -> Iterator[BenchCase]:
    """Yield linear layers with a bias."""
    for dtype in ("bf16", "fp32"):
        for out, inner in ((768, 768), (3072, 768), (4096, 4096), (1000, 2048), (50257, 768)):
            for tokens in (1, 16, 128, 1024, 8192):
                yield _linear(dtype, tokens, out, inner)


def _linear(dtype: str, tokens: int, out: int, inner: int) -> BenchCase:
    def make(device: str) -> Callable[[], object]:
        x = randn(tokens, inner, dtype=DTYPES[dtype], device=device)
        w = randn(out, inner, dtype=DTYPES[dtype], device=device)
        b = randn(out, dtype=DTYPES[dtype], device=device)

        def call() -> object:
            torch.backends.cuda.matmul.allow_tf32 = False
            return torch.nn.functional.linear(x, w, b)

        return call

    params: dict[str, Value] = {"dtype": dtype, "layout": "NT", "m": tokens, "n": out, "k": inner}
    return _case("linear_bias", params, make)


BATCHED = (
    (96, 1024, 1024, 64),
    (96, 1024, 64, 1024),
    (8, 2048, 2048, 2048),
    (12, 128, 128, 64),
    (96, 512, 512, 64),
    (32, 2048, 2048, 64),
    (32, 1, 1, 64),
    (512, 64, 64, 64),
    (96, 1024, 1024, 128),
    (32, 2048, 2048, 128),
    (96, 128, 128, 128),
    (12, 128, 64, 128),
    (32, 2048, 128, 2048),
    (96, 128, 128, 128),
    (2048, 27, 27, 64),
    (1024, 16, 16, 16),
    (64, 256, 256, 256),
)
"""(batch, m, n, k): attention scores and values, recommendation, small and large."""


def batched(
    dtypes: tuple[str, ...], shapes: tuple[tuple[int, int, int, int], ...]
) -> Iterator[BenchCase]:
    """Yield batched products in two layouts."""
    for dtype in dtypes:
        for batch, m, n, k in shapes:
            for layout in ("NN", "NT"):
                yield _batched(dtype, layout, batch, m, n, k)


def _batched(dtype: str, layout: str, batch: int, m: int, n: int, k: int) -> BenchCase:
    def make(device: str) -> Callable[[], object]:
        a = randn(batch, m, k, dtype=DTYPES[dtype], device=device)
        if layout == "NN":
            b = randn(batch, k, n, dtype=DTYPES[dtype], device=device)
        else:
            b = randn(batch, n, k, dtype=DTYPES[dtype], device=device).transpose(1, 2)

        def call() -> object:
            torch.backends.cuda.matmul.allow_tf32 = False
            return torch.bmm(a, b)

        return call

    params: dict[str, Value] = {
        "dtype": dtype,
        "layout": layout,
        "b": batch,
        "m": m,
        "n": n,
        "k": k,
    }
    return _case("bmm", params, make)
