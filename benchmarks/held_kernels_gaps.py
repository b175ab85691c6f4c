"""True kernel durations where the models have gaps: recurrent layers with their streams, embedding
bags, half-precision norms, unusual convolutions, attention's lesser paths, rare products.

    python benchmarks/held_kernels_gaps.py --out validation/recordings/h200/micro/gaps.jsonl.gz

Needs PyTorch with CUDA, nothing of gpuscope; under two minutes. One JSON line a case and state:
`group, op, params, state` ("hot": called again and again; "cold": the L2 cache was overwritten
before), `sum_us`, `union_us` and `span_us` of its device work (medians over calls), what the call
allocates at its peak, and its kernels by name, grid and stream with their number and total time a
call. Recurrent layers also list one call's kernels in time. Calls are told apart by marker kernels,
which also let the host run ahead, so that the device never waits for it.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

Call = Callable[[], object]
Case = tuple[str, str, dict[str, Any], Callable[[], Call]]

REPEATS = 4
AT_ONCE = 10
"""Cases of one profile: their tensors live together."""
SPIN_CYCLES = 300_000
"""Of a marker: about 150 us, in which the host queues the call."""
LONG_SPIN_CYCLES = 12_000_000
FLUSH_BYTES = 256 * 2**20
DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def _dtype(name: str) -> Any:
    import torch

    return getattr(torch, DTYPES[name])


def _switch(params: dict[str, Any]) -> None:
    """The process's switches as a case wants them; just before each call."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = params.get("dtype") == "tf32"
    torch.backends.cudnn.allow_tf32 = params.get("dtype") != "fp32"
    torch.backends.cudnn.benchmark = bool(params.get("search"))


def _random(*shape: int, dtype: Any, grad: bool = False) -> Any:
    import torch

    return torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=grad)


def _backward(make: Callable[[], tuple[Any, list[Any]]]) -> Call:
    """A call of only the backward pass."""
    import torch

    out, wanted = make()
    grad = torch.ones_like(out)
    return lambda: torch.autograd.grad(out, wanted, grad, retain_graph=True)


# --- recurrent layers


def recurrent() -> Iterator[Case]:
    plain = [
        ("LSTM", "tf32", h, n, 32, b, 1, 0.0)
        for h, n, b in (
            (512, 1, 16),
            (512, 2, 16),
            (512, 4, 16),
            (1024, 1, 16),
            (1024, 2, 16),
            (1024, 3, 16),
            (1024, 2, 1),
            (1024, 2, 64),
            (1024, 2, 128),
            (2000, 2, 8),
            (2000, 2, 32),
            (2000, 2, 96),
            (256, 2, 64),
        )
    ]
    other = [
        ("LSTM", "tf32", 1024, 2, 96, 16, 1, 0.0),
        ("LSTM", "tf32", 1024, 2, 32, 16, 1, 0.5),
        ("LSTM", "tf32", 512, 1, 32, 16, 2, 0.0),
        ("LSTM", "tf32", 512, 2, 32, 64, 2, 0.0),
        ("LSTM", "fp16", 1024, 2, 32, 16, 1, 0.0),
        ("LSTM", "fp16", 1024, 2, 32, 64, 1, 0.0),
        ("LSTM", "bf16", 1024, 2, 32, 64, 1, 0.0),
        ("LSTM", "fp32", 1024, 2, 32, 16, 1, 0.0),
        ("GRU", "tf32", 1024, 1, 32, 16, 1, 0.0),
        ("GRU", "tf32", 1024, 2, 32, 64, 1, 0.0),
        ("GRU", "fp16", 512, 2, 32, 64, 1, 0.0),
        ("RNN", "tf32", 1024, 2, 32, 16, 1, 0.0),
        ("RNN", "tf32", 1024, 2, 32, 64, 1, 0.0),
        ("RNN", "fp16", 512, 1, 32, 64, 1, 0.0),
    ]
    for mode, dtype, hidden, layers, seq, batch, ways, drop in plain + other:
        for direction in ("fwd", "bwd"):
            params = {
                "dir": direction,
                "dtype": dtype,
                "hidden": hidden,
                "layers": layers,
                "seq": seq,
                "batch": batch,
                "ways": ways,
                "dropout": drop,
            }
            yield "recurrent", mode, params, lambda m=mode, p=params: _rnn(m, p)


def _rnn(mode: str, p: dict[str, Any]) -> Call:
    import torch

    dtype = _dtype(p["dtype"])
    layer = getattr(torch.nn, mode)(
        p["hidden"], p["hidden"], p["layers"], bidirectional=p["ways"] == 2, dropout=p["dropout"]
    ).to("cuda", dtype)
    x = _random(p["seq"], p["batch"], p["hidden"], dtype=dtype, grad=True)
    if p["dir"] == "fwd":
        return lambda: layer(x)
    return _backward(lambda: (layer(x)[0], [x, *layer.parameters()]))


# --- embeddings and bags


def embeddings() -> Iterator[Case]:
    bags = [(rows, 16, 2048, 1, "fp32") for rows in (3, 20, 1000, 100_000, 4_000_000)]
    bags += [(rows, 16, 16384, 1, "fp32") for rows in (3, 20, 1000, 100_000, 4_000_000)]
    bags += [(rows, 64, 8192, 1, "fp32") for rows in (5, 500, 500_000)]
    bags += [(rows, 128, 4096, 1, "fp32") for rows in (5, 500, 500_000)]
    bags += [
        (50, 32, 65536, 1, "fp32"),
        (50_000, 32, 65536, 1, "fp32"),
        (50, 16, 512, 1, "fp32"),
        (1000, 16, 2048, 20, "fp32"),
        (1_000_000, 64, 2048, 20, "fp32"),
        (100_000, 64, 8192, 4, "fp32"),
        (100_000, 64, 8192, 1, "fp16"),
    ]
    for mode in ("sum", "mean", "max"):
        for rows, width, batch, size, dtype in bags if mode == "sum" else bags[1::6]:
            for direction in ("fwd", "bwd"):
                params = {
                    "dir": direction,
                    "mode": mode,
                    "rows": rows,
                    "width": width,
                    "batch": batch,
                    "bag": size,
                    "dtype": dtype,
                }
                yield "embedding", "bag", params, lambda p=params: _bag(p)
    for rows, width, count, dtype in (
        (3, 16, 16384, "fp32"),
        (50_000, 64, 512, "fp32"),
        (50_000, 64, 2048, "fp32"),
        (50_000, 64, 4096, "bf16"),
        (32_000, 1024, 4096, "bf16"),
        (30, 64, 2048, "fp32"),
        (2, 768, 32768, "fp32"),
        (512, 768, 65536, "bf16"),
        (1_000_000, 32, 262_144, "fp32"),
    ):
        params = {"rows": rows, "width": width, "count": count, "dtype": dtype}
        yield "embedding", "dense_backward", params, lambda p=params: _dense(p)


def _bag(p: dict[str, Any]) -> Call:
    import torch
    from torch.nn import functional

    table = _random(p["rows"], p["width"], dtype=_dtype(p["dtype"]), grad=True)
    index = torch.randint(p["rows"], (p["batch"] * p["bag"],), device="cuda")
    begin = torch.arange(0, p["batch"] * p["bag"], p["bag"], device="cuda")

    def call() -> Any:
        return functional.embedding_bag(index, table, begin, mode=p["mode"])

    return call if p["dir"] == "fwd" else _backward(lambda: (call(), [table]))


def _dense(p: dict[str, Any]) -> Call:
    import torch

    index = torch.randint(p["rows"], (p["count"],), device="cuda")
    grad = _random(p["count"], p["width"], dtype=_dtype(p["dtype"]))
    return lambda: torch.ops.aten.embedding_dense_backward(grad, index, p["rows"], -1, False)


# --- norms and half-precision elementwise operators


def norms() -> Iterator[Case]:
    flat = ((512, 256), (64, 1024), (4096, 512), (128, 64), (16384, 128), (2048, 2048))
    images = (
        (256, 64, 56, 56),
        (256, 256, 28, 28),
        (64, 512, 14, 14),
        (256, 512, 7, 7),
        (32, 64, 112, 112),
        (8, 960, 16, 16),
    )
    for dtype in ("fp32", "fp16", "bf16"):
        for direction in ("train", "eval", "bwd"):
            for shape in flat + images:
                for layout in ("first",) if len(shape) == 2 else ("first", "last"):
                    weights = ("same",) if dtype == "fp32" else ("same", "float")
                    for weight in weights:
                        if weight == "float" and shape not in (flat[0], images[1], images[2]):
                            continue
                        params = {
                            "dir": direction,
                            "dtype": dtype,
                            "shape": shape,
                            "layout": layout,
                            "weights": weight,
                        }
                        yield "norm", "batch_norm", params, lambda p=params: _batch_norm(p)
    for shape in ((32, 96, 56, 56), (32, 384, 14, 14), (64, 768, 7, 7), (32, 56, 56, 96)):
        for dtype in ("fp32", "bf16"):
            for direction in ("fwd", "bwd"):
                params = {
                    "dir": direction,
                    "dtype": dtype,
                    "shape": shape,
                    "permuted": shape[3] != 96,
                }
                yield "norm", "layer_norm_channels", params, lambda p=params: _layer_norm(p)


def _batch_norm(p: dict[str, Any]) -> Call:
    import torch
    from torch.nn import functional

    dtype = _dtype(p["dtype"])
    x = _random(*p["shape"], dtype=dtype)
    if p["layout"] == "last":
        x = x.to(memory_format=torch.channels_last)
    x.requires_grad_(p["dir"] == "bwd")
    kind = dtype if p["weights"] == "same" else torch.float32
    weight, bias = (_random(p["shape"][1], dtype=kind, grad=p["dir"] == "bwd") for _ in "wb")
    mean, var = (torch.ones(p["shape"][1], device="cuda", dtype=kind) for _ in "mv")

    def call() -> Any:
        return functional.batch_norm(x, mean, var, weight, bias, p["dir"] != "eval")

    if p["dir"] == "bwd":
        return _backward(lambda: (call(), [x, weight, bias]))
    return lambda: torch.no_grad()(call)() if p["dir"] == "eval" else call()


def _layer_norm(p: dict[str, Any]) -> Call:
    from torch.nn import functional

    dtype = _dtype(p["dtype"])
    x = _random(*p["shape"], dtype=dtype, grad=True)
    width = p["shape"][1] if p["permuted"] else p["shape"][3]
    weight, bias = (_random(width, dtype=dtype, grad=True) for _ in "wb")

    def call() -> Any:
        given = x.permute(0, 2, 3, 1) if p["permuted"] else x
        made = functional.layer_norm(given, (width,), weight, bias)
        return made.permute(0, 3, 1, 2) if p["permuted"] else made

    return call if p["dir"] == "fwd" else _backward(lambda: (call(), [x, weight, bias]))


def pointwise() -> Iterator[Case]:
    for name in ("relu", "relu_", "add", "add_", "gelu", "silu", "mul", "to_float", "clone"):
        for dtype in ("fp16", "bf16", "fp32"):
            for n in (100_000, 5_000_000, 50_000_000, 200_000_000):
                if dtype != "fp16" and n == 5_000_000:
                    continue
                params = {"dtype": dtype, "n": n}
                yield "pointwise", name, params, lambda o=name, p=params: _point(o, p)


def _point(name: str, p: dict[str, Any]) -> Call:
    import torch
    from torch.nn import functional

    x, y = (_random(p["n"], dtype=_dtype(p["dtype"])) for _ in "xy")
    calls: dict[str, Call] = {
        "relu": lambda: functional.relu(x),
        "relu_": lambda: functional.relu_(x),
        "add": lambda: x + y,
        "add_": lambda: x.add_(y),
        "gelu": lambda: functional.gelu(x),
        "silu": lambda: functional.silu(x),
        "mul": lambda: x * y,
        "to_float": lambda: x.to(torch.float32 if x.dtype != torch.float32 else torch.float16),
        "clone": lambda: x.clone(),
    }
    return calls[name]


# --- convolutions


def convolutions() -> Iterator[Case]:
    """(rank, images, in, side, out, filter, stride, groups, dilation, transposed)."""
    shapes = [
        (2, 16, c, 28, k, 3, 1, 1, 1, False)
        for c, k in (
            (256, 256),
            (257, 256),
            (260, 256),
            (256, 257),
            (257, 257),
            (130, 128),
            (96, 100),
            (3, 64),
            (1, 32),
            (12, 24),
        )
    ]
    shapes += [
        (2, 16, 257, 28, 256, 1, 1, 1, 1, False),
        (2, 16, 260, 28, 256, 1, 1, 1, 1, False),
        (2, 32, 128, 56, 128, 5, 1, 128, 1, False),
        (2, 32, 256, 28, 256, 3, 2, 256, 1, False),
        (2, 32, 512, 14, 512, 9, 1, 512, 1, False),
        (2, 32, 64, 112, 64, 3, 1, 64, 1, False),
        (2, 32, 256, 28, 256, 3, 1, 2, 1, False),
        (2, 32, 256, 28, 256, 3, 1, 8, 1, False),
        (2, 32, 256, 28, 256, 3, 1, 64, 1, False),
        (2, 16, 256, 28, 256, 3, 1, 1, 2, False),
        (2, 16, 256, 28, 256, 3, 1, 1, 4, False),
        (2, 16, 256, 16, 128, 4, 2, 1, 1, True),
        (2, 16, 128, 32, 64, 2, 2, 1, 1, True),
        (2, 1, 512, 64, 512, 3, 1, 1, 1, False),
        (1, 16, 512, 1500, 512, 3, 1, 1, 1, False),
        (1, 16, 256, 4096, 256, 7, 1, 1, 1, False),
        (1, 16, 512, 1500, 512, 15, 1, 512, 1, False),
        (3, 2, 64, 32, 64, 3, 1, 1, 1, False),
        (3, 4, 16, 64, 32, 3, 1, 1, 1, False),
        (3, 2, 128, 16, 256, 3, 2, 1, 1, False),
        (3, 8, 3, 32, 64, 3, 1, 1, 1, False),
    ]
    searched = (shapes[0], shapes[1], (2, 32, 256, 28, 256, 3, 2, 256, 1, False), shapes[-4])
    for shape in shapes:
        for dtype in ("bf16", "tf32") if shape[1] != 8 else ("bf16",):
            for layout in ("first", "last") if shape[0] > 1 else ("first",):
                for search in (False, True) if shape in searched else (False,):
                    for direction in ("fwd", "dgrad", "wgrad"):
                        params = {
                            "dir": direction,
                            "dtype": dtype,
                            "layout": layout,
                            "search": search,
                            "shape": shape,
                        }
                        yield "convolution", f"conv{shape[0]}d", params, lambda p=params: _conv(p)


def small_convolutions() -> Iterator[Case]:
    """Convolutions of small models: which of them cuDNN runs as they lie, without converting."""
    for n, c, k, side, r in itertools.product((8, 64), (3, 16, 64), (16, 64, 256), (8, 32), (1, 3)):
        for dtype in ("tf32", "bf16"):
            for direction in ("fwd", "dgrad", "wgrad"):
                params = {
                    "dir": direction,
                    "dtype": dtype,
                    "layout": "first",
                    "search": False,
                    "shape": (2, n, c, side, k, r, 1, 1, 1, False),
                }
                yield "small_convolution", "conv2d", params, lambda p=params: _conv(p)


def _conv(p: dict[str, Any]) -> Call:
    import torch

    rank, n, c, side, k, r, stride, groups, dilation, transposed = p["shape"]
    form = torch.contiguous_format
    if p["layout"] == "last":
        form = torch.channels_last if rank == 2 else torch.channels_last_3d
    dtype = _dtype(p["dtype"])
    x = _random(n, c, *[side] * rank, dtype=dtype).to(memory_format=form)
    filters = (c, k // groups) if transposed else (k, c // groups)
    weight = _random(*filters, *[r] * rank, dtype=dtype).to(memory_format=form)
    pad = (r - 1) * dilation // 2
    rest = ([stride] * rank, [pad] * rank, [dilation] * rank, transposed, [0] * rank, groups)

    if p["dir"] == "fwd":
        return lambda: torch.ops.aten.convolution(x, weight, None, *rest)
    grad = torch.ones_like(torch.ops.aten.convolution(x, weight, None, *rest))
    mask = [p["dir"] == "dgrad", p["dir"] == "wgrad", False]
    return lambda: torch.ops.aten.convolution_backward(grad, x, weight, None, *rest, mask)


# --- attention


def attention() -> Iterator[Case]:
    def case(**kw: Any) -> dict[str, Any]:
        given = {
            "b": 4,
            "h": 16,
            "hkv": 16,
            "sq": 1024,
            "sk": 1024,
            "d": 64,
            "dtype": "bf16",
            "causal": False,
            "mask": "none",
            "p": 0.0,
            "backend": "default",
        }
        return {**given, **kw}

    found = [
        case(backend="efficient", d=d, dtype=t, causal=c)
        for d in (32, 64, 96, 128, 160, 192, 256)
        for t, c in (("bf16", False), ("fp16", True))
    ]
    found += [
        case(backend="efficient", sq=s, sk=s, b=b) for s, b in ((128, 32), (512, 8), (4096, 1))
    ]
    found += [case(backend="efficient", mask=m) for m in ("bool", "float")]
    found += [
        case(backend="efficient", p=0.1),
        case(backend="efficient", dtype="fp32"),
        case(backend="efficient", dtype="tf32", d=128),
    ]
    found += [
        case(mask=m, d=d, dtype=t)
        for m in ("bool", "float")
        for d in (64, 128)
        for t in ("bf16", "fp32")
    ]
    found += [
        case(backend="math", mask=m, dtype=t)
        for m in ("none", "bool", "float")
        for t in ("bf16", "fp32")
    ]
    found += [
        case(backend="math", sq=256, sk=256, causal=True),
        case(backend="flash", d=192),
        case(backend="flash", d=256),
        case(d=192),
        case(d=160),
        case(d=256),
        case(d=72),
        case(d=36),
        case(d=512),
        case(p=0.2),
        case(dtype="fp16", causal=True, d=96),
        case(b=8, sq=1, sk=1000, mask="bool"),
        case(b=8, sq=4, sk=1000),
        case(b=8, sq=16, sk=2048, d=128),
    ]
    found += [case(sq=512, sk=2048, causal=True, backend=b) for b in ("default", "flash")]
    found += [
        case(sq=77, sk=4096),
        case(sq=4096, sk=77),
        case(sq=777, sk=777, b=3, h=5, hkv=5),
        case(sq=16384, sk=16384, b=1, h=8, hkv=8, d=128, causal=True),
        case(sq=32768, sk=32768, b=1, h=4, hkv=4, d=128, causal=True),
        case(hkv=4, d=128, causal=True),
        case(h=32, hkv=8, sq=4096, sk=4096, b=1, d=128, causal=True),
    ]
    decode = [
        (1, 32, 8, 4096, 128),
        (8, 32, 8, 1024, 128),
        (64, 32, 8, 2048, 128),
        (1, 16, 16, 512, 64),
        (16, 12, 12, 2000, 64),
        (4, 64, 8, 16384, 128),
        (1, 8, 1, 65536, 256),
        (32, 16, 2, 777, 96),
    ]
    found += [
        case(b=b, h=h, hkv=kv, sq=1, sk=s, d=d, backend=k)
        for b, h, kv, s, d in decode
        for k in ("default", "flash")
    ]
    for params in found:
        for direction in ("fwd",) if params["sq"] == 1 else ("fwd", "bwd"):
            given = {"dir": direction, **params}
            yield "attention", "sdpa", given, lambda p=given: _sdpa(p)


def _sdpa(p: dict[str, Any]) -> Call:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kinds = {
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "flash": SDPBackend.FLASH_ATTENTION,
        "math": SDPBackend.MATH,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
    }
    dtype = _dtype(p["dtype"])
    train = p["sq"] > 1
    q = _random(p["b"], p["h"], p["sq"], p["d"], dtype=dtype, grad=train)
    k, v = (_random(p["b"], p["hkv"], p["sk"], p["d"], dtype=dtype, grad=train) for _ in "kv")
    mask = None
    if p["mask"] != "none":
        mask = torch.ones(p["b"], 1, p["sq"], p["sk"], device="cuda", dtype=torch.bool).tril(2)
        mask = mask if p["mask"] == "bool" else mask.to(dtype)

    def call() -> Any:
        def run() -> Any:
            return torch.nn.functional.scaled_dot_product_attention(
                q,
                k,
                v,
                attn_mask=mask,
                dropout_p=p["p"],
                is_causal=p["causal"],
                enable_gqa=p["h"] != p["hkv"],
            )

        if p["backend"] == "default":
            return run()
        with sdpa_kernel(kinds[p["backend"]]):
            return run()

    return call if p["dir"] == "fwd" else _backward(lambda: (call(), [q, k, v]))


# --- products


def products() -> Iterator[Case]:
    for m in (1, 4, 16, 64, 256):
        for n, k in ((4096, 4096), (11008, 4096), (128, 4096), (4096, 64)):
            for op, dtype in (
                ("scaled_mm", "fp8"),
                ("scaled_mm_rowwise", "fp8"),
                ("mm", "bf16"),
                ("int_mm", "int8"),
                ("mm", "fp32"),
                ("mm", "tf32"),
            ):
                params = {"m": m, "n": n, "k": k, "dtype": dtype}
                yield "product", op, params, lambda o=op, p=params: _product(o, p)
    for b, m, n, k in (
        (64, 1024, 1024, 64),
        (64, 1024, 64, 1024),
        (192, 128, 128, 64),
        (192, 128, 64, 128),
        (512, 49, 49, 32),
        (512, 49, 32, 49),
        (32, 1, 2048, 128),
        (32, 1, 128, 2048),
        (16, 777, 777, 96),
        (1024, 27, 27, 16),
    ):
        for dtype in ("bf16", "fp16", "fp32", "tf32"):
            params = {"b": b, "m": m, "n": n, "k": k, "dtype": dtype}
            yield "product", "bmm", params, lambda p=params: _product("bmm", p)
    for experts, tokens, n, k in (
        (8, 4096, 4096, 2048),
        (64, 4096, 1408, 2048),
        (64, 256, 1408, 2048),
        (16, 16384, 2048, 1024),
    ):
        params = {"experts": experts, "tokens": tokens, "n": n, "k": k, "dtype": "bf16"}
        yield "product", "grouped_mm", params, lambda p=params: _grouped(p)


def _product(op: str, p: dict[str, Any]) -> Call:
    import torch

    m, n, k = p["m"], p["n"], p["k"]
    if op == "int_mm":
        a, b = (torch.randint(-9, 9, s, device="cuda", dtype=torch.int8) for s in ((m, k), (n, k)))
        return lambda: torch._int_mm(a, b.t())
    if op.startswith("scaled_mm"):
        a, b = (_random(*s, dtype=torch.bfloat16).to(torch.float8_e4m3fn) for s in ((m, k), (n, k)))
        rows = op.endswith("rowwise")
        one, two = (torch.ones(s if rows else (), device="cuda") for s in ((m, 1), (1, n)))
        return lambda: torch._scaled_mm(a, b.t(), one, two, out_dtype=torch.bfloat16)
    dtype = _dtype(p["dtype"])
    if op == "bmm":
        a, b = _random(p["b"], m, k, dtype=dtype), _random(p["b"], k, n, dtype=dtype)
    else:
        a, b = _random(m, k, dtype=dtype), _random(n, k, dtype=dtype).t()
    return lambda: a @ b


def small_products() -> Iterator[Case]:
    """Products of small models, as a linear layer and its two gradients call them: which kernels
    are chosen, whether the sum is split, and what that launches."""
    sizes = (64, 256, 1024, 4096)
    for m, n, k in itertools.product(sizes, sizes, sizes):
        for dtype in ("fp32", "bf16"):
            for way in ("nt", "nn", "tn", "bias"):
                params = {"m": m, "n": n, "k": k, "dtype": dtype, "way": way}
                yield "small_product", "mm", params, lambda p=params: _small_product(p)


def _small_product(p: dict[str, Any]) -> Call:
    import torch

    m, n, k, way, dtype = p["m"], p["n"], p["k"], p["way"], _dtype(p["dtype"])
    a = _random(k, m, dtype=dtype).t() if way == "tn" else _random(m, k, dtype=dtype)
    b = _random(n, k, dtype=dtype).t() if way in ("nt", "bias") else _random(k, n, dtype=dtype)
    if way == "bias":
        bias = _random(n, dtype=dtype)
        return lambda: torch.addmm(bias, a, b)
    return lambda: torch.mm(a, b)


def _grouped(p: dict[str, Any]) -> Call:
    import torch

    a = _random(p["tokens"], p["k"], dtype=torch.bfloat16)
    b = _random(p["experts"], p["n"], p["k"], dtype=torch.bfloat16).transpose(1, 2)
    step = p["tokens"] // p["experts"]
    ends = torch.arange(step, p["tokens"] + 1, step, device="cuda", dtype=torch.int32)
    return lambda: torch._grouped_mm(a, b, offs=ends)


# --- order, selection, optimizers


def selections() -> Iterator[Case]:
    for rows, columns in (
        (1, 1000),
        (1, 5000),
        (1, 1_000_000),
        (16, 128),
        (4096, 64),
        (4096, 128),
        (512, 1024),
        (64, 8192),
        (8, 100_000),
        (1, 10_000_000),
    ):
        for op in (
            "sort",
            "topk8",
            "argsort_int64",
            "cumsum",
            "nonzero",
            "unique",
            "scatter_add",
            "index_put",
            "bincount",
            "masked_fill",
        ):
            params = {"rows": rows, "columns": columns}
            yield "selection", op, params, lambda o=op, p=params: _select(o, p)


def _select(op: str, p: dict[str, Any]) -> Call:
    import torch

    x = _random(p["rows"], p["columns"], dtype=torch.float32)
    whole = torch.randint(p["columns"], (p["rows"], p["columns"]), device="cuda")
    flat, spread = whole.flatten(), torch.zeros_like(x)
    k = min(8, p["columns"])
    calls: dict[str, Call] = {
        "sort": lambda: x.sort(-1),
        "topk8": lambda: x.topk(k, -1),
        "argsort_int64": lambda: whole.argsort(-1),
        "cumsum": lambda: x.cumsum(-1),
        "nonzero": lambda: (x > 1).nonzero(),
        "unique": flat.unique,
        "scatter_add": lambda: spread.scatter_add_(1, whole, x),
        "index_put": lambda: spread.index_put_(
            (torch.zeros_like(flat), flat), x.flatten(), accumulate=True
        ),
        "bincount": lambda: torch.bincount(flat),
        "masked_fill": lambda: x.masked_fill(x > 1, 0.0),
    }
    return calls[op]


def optimizers() -> Iterator[Case]:
    mixes = {
        "image": [64 * 9 * 64, 64, 64, 256 * 64, 256, 256] * 25,
        "layers": [768 * 768] * 48,
        "wide": [4096 * 4096] * 8,
        "tiny": [16] * 200,
    }
    for mix, sizes in mixes.items():
        for op in (
            "AdamW_fused",
            "AdamW_foreach",
            "SGD_foreach",
            "SGD_fused",
            "Adagrad_foreach",
            "RMSprop_foreach",
            "clip_foreach",
        ):
            for dtype in ("fp32", "bf16"):
                params = {"mix": mix, "tensors": len(sizes), "total": sum(sizes), "dtype": dtype}
                yield "optimizer", op, params, lambda o=op, p=params, s=sizes: _optimize(o, p, s)


def _optimize(op: str, p: dict[str, Any], sizes: list[int]) -> Call:
    import torch

    weights = [_random(n, dtype=_dtype(p["dtype"]), grad=True) for n in sizes]
    for w in weights:
        w.grad = torch.ones_like(w)
    name, how = op.split("_")
    if name == "clip":
        return lambda: torch.nn.utils.clip_grad_norm_(weights, 1.0, foreach=True)
    extra = {"momentum": 0.9} if name == "SGD" else {}
    made = getattr(torch.optim, name)(weights, lr=1e-4, **{how: True}, **extra)
    return lambda: made.step()


# --- the measurement


GROUPS = (
    recurrent,
    embeddings,
    norms,
    attention,
    convolutions,
    products,
    pointwise,
    selections,
    optimizers,
    small_products,
    small_convolutions,
)


def _run(made: list[tuple[Case, Call]], flush: Any) -> Path:
    """Profile every call hot and cold, marked; the trace's file."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for case, call in made:
            _switch(case[2])
            spin = LONG_SPIN_CYCLES if case[0] == "recurrent" else SPIN_CYCLES
            for state in ("hot", "cold"):
                for _ in range(REPEATS if case[0] != "recurrent" else 2):
                    if state == "cold":
                        flush.fill_(1)
                    torch.cuda._sleep(spin)
                    call()
                    torch.cuda.synchronize()
                    torch.cuda._sleep(1000)
                    torch.cuda.synchronize()
    path = Path(tempfile.mkdtemp()) / "trace.json"
    found.export_chrome_trace(str(path))
    return path


def _calls(path: Path) -> list[list[dict[str, Any]]]:
    """Device events of each call, told apart by the markers on either side."""
    events = [
        e
        for e in json.loads(path.read_text())["traceEvents"]
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    events.sort(key=lambda e: e["ts"])
    calls: list[list[dict[str, Any]]] = []
    open_: list[dict[str, Any]] | None = None
    for event in events:
        if "spin_kernel" in event["name"]:
            if open_ is None:
                open_ = []
            else:
                calls.append(open_)
                open_ = None
        elif open_ is not None:
            open_.append(event)
    return calls


def _union_us(events: list[dict[str, Any]]) -> float:
    total, end = 0.0, 0.0
    for e in events:
        total += max(0.0, e["ts"] + e["dur"] - max(end, e["ts"]))
        end = max(end, e["ts"] + e["dur"])
    return total


def _row(case: Case, state: str, calls: list[list[dict[str, Any]]], peak: int) -> dict[str, Any]:
    group, op, params, _ = case
    kernels: dict[tuple[str, str, str, int], list[float]] = defaultdict(list)
    for events in calls:
        for e in events:
            args = e["args"]
            grid, block = ("x".join(map(str, args.get(k, ()))) for k in ("grid", "block"))
            kernels[e["name"][:160], grid, block, args.get("stream", -1)].append(e["dur"])
    n = len(calls)
    row = {
        "group": group,
        "op": op,
        "params": params,
        "state": state,
        "calls": n,
        "sum_us": round(median(sum(e["dur"] for e in c) for c in calls), 3),
        "union_us": round(median(map(_union_us, calls)), 3),
        "span_us": round(
            median(c[-1]["ts"] + c[-1]["dur"] - c[0]["ts"] if c else 0.0 for c in calls), 3
        ),
        "peak_bytes": peak,
        "kernels": [
            {
                "name": k[0],
                "grid": k[1],
                "block": k[2],
                "stream": k[3],
                "count": round(len(us) / n, 3),
                "us": round(median(us) * len(us) / n, 3),
            }
            for k, us in kernels.items()
        ],
    }
    if group == "recurrent" and state == "hot":
        first = calls[0][0]["ts"] if calls[0] else 0.0
        row["timeline"] = [
            [
                e["args"].get("stream", -1),
                round(e["ts"] - first, 2),
                round(e["dur"], 2),
                e["name"][:28],
            ]
            for e in calls[0]
        ]
    return row


def _prepare(case: Case) -> tuple[Call | None, int, str]:
    """The call, warmed, and the bytes it allocates at its peak; or why it cannot run."""
    import torch

    try:
        _switch(case[2])
        call = case[3]()
        for _ in range(2):
            call()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return call, torch.cuda.max_memory_allocated() - before, ""
    except Exception as error:
        return None, 0, f"{type(error).__name__}: {error}"[:200]


def _measure(cases: list[Case], flush: Any) -> Iterator[dict[str, Any]]:
    import torch

    made: list[tuple[Case, Call]] = []
    peaks = []
    for case in cases:
        call, peak, error = _prepare(case)
        if call is None:
            yield {"group": case[0], "op": case[1], "params": case[2], "error": error}
        else:
            made.append((case, call))
            peaks.append(peak)
    calls = _calls(_run(made, flush)) if made else []
    repeats = [REPEATS if case[0] != "recurrent" else 2 for case, _ in made]
    if len(calls) != 2 * sum(repeats):  # the profiler lost a marker: nothing can be told apart
        for case, _ in made:
            yield {"group": case[0], "op": case[1], "params": case[2], "error": "markers lost"}
        repeats = []
    at = 0
    for (case, _), n, peak in zip(made[: len(repeats)], repeats, peaks, strict=False):
        for state in ("hot", "cold"):
            yield _row(case, state, calls[at : at + n], peak)
            at += n
    made.clear()
    torch.cuda.empty_cache()


def main() -> None:
    """Measure every group that time allows and write the lines."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", help="groups, by their functions' names")
    parser.add_argument("--limit-s", type=float, default=110.0, help="begin no batch after that")
    args = parser.parse_args()
    began = time.monotonic()
    torch.manual_seed(0)
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    written = skipped = 0
    with gzip.open(args.out, "wt", compresslevel=9) as file:
        for group in GROUPS:
            if args.only and group.__name__ not in args.only:
                continue
            cases, start = list(group()), time.monotonic()
            for at in range(0, len(cases), AT_ONCE):
                if time.monotonic() - began > args.limit_s:
                    skipped += len(cases) - at
                    break
                for row in _measure(cases[at : at + AT_ONCE], flush):
                    file.write(json.dumps(row) + "\n")
                    written += 1
            print(
                f"{group.__name__}: {len(cases)} cases, {time.monotonic() - start:.1f} s",
                flush=True,
            )
    print(written, "lines,", skipped, "cases left out:", args.out)


if __name__ == "__main__":
    main()
