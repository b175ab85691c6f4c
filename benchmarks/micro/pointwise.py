"""Bandwidth and pointwise kernels: sizes from a thousand to a billion elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from harness import DTYPES, Point, randn
from torch.nn import functional

SIZES = (*(10**e for e in range(3, 10)), 3 * 10**6, 3 * 10**7, 3 * 10**8)
FEWER = (10**4, 10**6, 10**7, 10**8)
Maker = Callable[[int, torch.dtype, str], Callable[[], object]]


def _unary(op: Callable[[torch.Tensor], object]) -> Maker:
    def make(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x = randn(n, dtype=dtype, device=device)
        return lambda: op(x)

    return make


def _binary(op: Callable[[torch.Tensor, torch.Tensor], object]) -> Maker:
    def make(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x, y = randn(n, dtype=dtype, device=device), randn(n, dtype=dtype, device=device)
        return lambda: op(x, y)

    return make


def _rows(op: Callable[[torch.Tensor, torch.Tensor], object]) -> Maker:
    """A [rows, 1024] tensor with one row: bias-like broadcasting."""

    def make(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x = randn(max(1, n // 1024), 1024, dtype=dtype, device=device)
        row = randn(1024, dtype=dtype, device=device)
        return lambda: op(x, row)

    return make


def _square(op: Callable[[torch.Tensor], object]) -> Maker:
    def make(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        side = int(n**0.5)
        x = randn(side, side, dtype=dtype, device=device)
        return lambda: op(x)

    return make


def _masked(op: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]) -> Maker:
    def make(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x, y = randn(n, dtype=dtype, device=device), randn(n, dtype=dtype, device=device)
        mask = torch.rand(n, device=device) > 0.5
        return lambda: op(x, y, mask)

    return make


def _heads(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
    """[batch, seq, heads, dim] -> contiguous [batch, heads, seq, dim]."""
    x = randn(max(1, n // (256 * 8 * 64)), 256, 8, 64, dtype=dtype, device=device).transpose(1, 2)
    return lambda: x.contiguous()


def _qkv_split_copy(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
    """Copy one third of a fused QKV row: a row-strided read."""
    x = randn(max(1, n // 1024), 3072, dtype=dtype, device=device)[:, 1024:2048]
    return lambda: x.contiguous()


def _rotary(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
    """The composed rotary embedding of Hugging Face models on [B, H, S, D] views."""
    x = randn(max(1, n // (256 * 8 * 128)), 256, 8, 128, dtype=dtype, device=device).transpose(1, 2)
    cos = randn(1, 1, 256, 128, dtype=dtype, device=device)

    def call() -> object:
        half = torch.cat((-x[..., 64:], x[..., :64]), dim=-1)
        return x * cos + half * cos

    return call


MAIN: dict[str, Maker] = {
    "clone": _unary(torch.clone),
    "add": _binary(torch.add),
    "mul_scalar": _unary(lambda x: x * 1.5),
    "gelu": _unary(functional.gelu),
    "fill_": _unary(lambda x: x.fill_(1.0)),
    "dropout": _unary(lambda x: torch.native_dropout(x, 0.1, True)),
}
OTHER: dict[str, Maker] = {
    "copy_": _binary(lambda x, y: x.copy_(y)),
    "add_": _binary(lambda x, y: x.add_(y)),
    "mul": _binary(torch.mul),
    "add_scalar": _unary(lambda x: x + 1.0),
    "gelu_tanh": _unary(lambda x: functional.gelu(x, approximate="tanh")),
    "silu": _unary(functional.silu),
    "relu": _unary(torch.relu),
    "tanh": _unary(torch.tanh),
    "sigmoid": _unary(torch.sigmoid),
    "exp": _unary(torch.exp),
    "neg": _unary(torch.neg),
    "pow2": _unary(lambda x: x.pow(2)),
    "pow3": _unary(lambda x: torch.pow(x, 3.0)),
    "rsqrt": _unary(torch.rsqrt),
    "cos": _unary(torch.cos),
    "div": _binary(torch.div),
    "zero_": _unary(lambda x: x.zero_()),
    "zeros": _unary(lambda x: torch.zeros_like(x)),
    "gelu_backward": _binary(torch.ops.aten.gelu_backward),
    "silu_backward": _binary(torch.ops.aten.silu_backward),
    "threshold_backward": _binary(lambda x, y: torch.ops.aten.threshold_backward(x, y, 0)),
    "addcmul": _binary(lambda x, y: torch.addcmul(x, x, y)),
    "lerp_": _binary(lambda x, y: x.lerp_(y, 0.1)),
    "where": _masked(lambda x, y, m: torch.where(m, x, y)),
    "masked_fill": _masked(lambda x, _y, m: x.masked_fill(m, 0.0)),
    "dropout_backward": _masked(lambda x, _y, m: torch.ops.aten.native_dropout_backward(x, m, 1.1)),
    "to_float32": _unary(lambda x: x.to(torch.float32)),
    "to_bfloat16": _unary(lambda x: x.to(torch.bfloat16)),
    "to_float64": _unary(lambda x: x.to(torch.float64)),
    "gt_scalar": _unary(lambda x: x > 0),
    "cat2": _binary(lambda x, y: torch.cat((x, y))),
    "stack4": _unary(lambda x: torch.stack((x, x, x, x))),
    "add_row": _rows(torch.add),
    "mul_row": _rows(torch.mul),
    "transpose_copy": _square(lambda x: x.t().contiguous()),
    "add_transposed": _square(lambda x: x + x.t()),
    "stride2_copy": _square(lambda x: x[:, ::2].contiguous()),
    "stride2_rows_copy": _square(lambda x: x[::2].contiguous()),
    "triu": _square(torch.triu),
    "mul_column": _square(lambda x: x * x[:, :1]),
    "heads_copy": _heads,
    "qkv_split_copy": _qkv_split_copy,
    "rotary": _rotary,
    "sub": _binary(torch.sub),
    "rsub_scalar": _unary(lambda x: 1.0 - x),
    "abs": _unary(torch.abs),
    "sqrt": _unary(lambda x: torch.sqrt(x)),
    "log": _unary(torch.log),
    "sin": _unary(torch.sin),
    "erf": _unary(torch.erf),
    "reciprocal": _unary(torch.reciprocal),
    "clamp": _unary(lambda x: x.clamp(-1.0, 1.0)),
    "leaky_relu": _unary(functional.leaky_relu),
    "elu": _unary(functional.elu),
    "softplus": _unary(functional.softplus),
    "hardswish": _unary(functional.hardswish),
    "glu": _square(lambda x: functional.glu(x[:, : x.shape[1] // 2 * 2], -1)),
    "maximum": _binary(torch.maximum),
    "eq": _binary(torch.eq),
    "logical_and": _masked(lambda _x, _y, m: torch.logical_and(m, m)),
    "bool_to_float": _masked(lambda _x, _y, m: m.float()),
    "addcdiv_": _binary(lambda x, y: x.addcdiv_(x, y, value=0.1)),
    "mul_": _unary(lambda x: x.mul_(0.999)),
    "sigmoid_backward": _binary(torch.ops.aten.sigmoid_backward),
    "tanh_backward": _binary(torch.ops.aten.tanh_backward),
    "gelu_tanh_backward": _binary(
        lambda x, y: torch.ops.aten.gelu_backward(x, y, approximate="tanh")
    ),
    "cat_last": _square(lambda x: torch.cat((x, x), -1)),
    "roll": _square(lambda x: torch.roll(x, (3, 3), (0, 1))),
    "pad": _square(lambda x: functional.pad(x, (1, 1, 1, 1))),
    "flip": _square(lambda x: x.flip(-1)),
    "repeat2": _square(lambda x: x.repeat(2, 1)),
    "repeat_interleave": _square(lambda x: x.repeat_interleave(2, 0)),
    "tril": _square(torch.tril),
    "randn": _unary(torch.randn_like),
    "bernoulli": _unary(lambda x: torch.empty_like(x).bernoulli_(0.5)),
    "arange": _unary(lambda x: torch.arange(x.numel(), device=x.device)),
}


def _point(op: str, make: Maker, dtype: str, n: int) -> Point:
    def bound(device: str) -> Callable[[], object]:
        return make(n, DTYPES[dtype], device)

    states = ("hot", "cold", "cold_clean") if op in MAIN else ("hot", "cold")
    return Point("pointwise", {"op": op, "dtype": dtype, "n": n}, bound, states)


def _working_set(op: str, mib: float) -> Point:
    """Hot only: the same ``mib`` MiB read (sum), written (fill) or copied (half to half)."""
    n = int(mib * 1024 * 1024 / 4)

    def make(device: str) -> Callable[[], object]:
        x = torch.randn(n, device=device)
        half = n // 2
        if op == "ws_read":
            return lambda: torch.sum(x)
        if op == "ws_write":
            return lambda: x.fill_(1.0)
        return lambda: x[:half].copy_(x[half : 2 * half])

    return Point("working_set", {"op": op, "dtype": "fp32", "mib": mib}, make, states=("hot",))


def points(quick: bool) -> Iterator[Point]:
    """All pointwise points; ``quick`` keeps the main operators at four sizes."""
    for op, make in MAIN.items():
        for dtype in ("fp32", "bf16"):
            for n in FEWER if quick else sorted(SIZES):
                yield _point(op, make, dtype, n)
    if quick:
        return
    for mib in (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 72, 80, 96, 128,
                192, 256, 384, 512, 1024, 4096):  # fmt: skip
        for op in ("ws_read", "ws_write", "ws_copy"):
            yield _working_set(op, mib)
    for op, make in OTHER.items():
        for dtype in ("fp32", "bf16"):
            for n in FEWER:
                yield _point(op, make, dtype, n)
