"""Pointwise kernels: contiguous, strided and broadcast; a thousand to a billion elements.

What is measured and how is said by `contiguous` and `shaped`: a maker of the call, and how many
times each element is read and written at least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional

from gpuscope.document.text import Text
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import BenchCase
from gpuscope.measurement.bench.inputs import DTYPES, randn
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point

Maker = Callable[[int, torch.dtype, str], Callable[[], object]]
SIZES = (10**8, 10**4, 10**6, 10**7, 10**3, 10**5, 10**9, 3 * 10**6, 3 * 10**7, 3 * 10**8)
FEWER = (10**8, 10**6, 10**4, 10**7)
QUICK = (10**8, 10**6, 10**4)


@dataclass(frozen=True, slots=True)
class Op:
    """A pointwise operator.

    Attributes:
        make: returns the call on `n` elements.
        moved: elements read and written for each of the `n`, of the operands' dtype; None where
            it is not that simple.
        extra_bytes: besides, for each of the `n`, whatever the dtype (masks).
    """

    make: Maker
    moved: float | None
    extra_bytes: float = 0.0


def unary(op: Callable[[torch.Tensor], object], moved: float | None = 2, extra: float = 0) -> Op:
    """Return an operator of one contiguous operand."""

    def make(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x = randn(n, dtype=dtype, device=device)
        return lambda: op(x)

    return Op(make, moved, extra)


def binary(op: Callable[[torch.Tensor, torch.Tensor], object], moved: float | None = 3) -> Op:
    """Return an operator of two contiguous operands."""

    def make(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x, y = randn(n, dtype=dtype, device=device), randn(n, dtype=dtype, device=device)
        return lambda: op(x, y)

    return Op(make, moved)


def masked(
    op: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object], moved: float, extra: float = 1
) -> Op:
    """Return an operator of two operands and a mask of one byte an element."""

    def make(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x, y = randn(n, dtype=dtype, device=device), randn(n, dtype=dtype, device=device)
        mask = torch.rand(n, device=device) > 0.5
        return lambda: op(x, y, mask)

    return Op(make, moved, extra)


def rows(op: Callable[[torch.Tensor, torch.Tensor], object]) -> Op:
    """Return an operator of [n / 1024, 1024] and one row, as a bias is added."""

    def make(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x = randn(max(1, n // 1024), 1024, dtype=dtype, device=device)
        row = randn(1024, dtype=dtype, device=device)
        return lambda: op(x, row)

    return Op(make, 2)


def square(op: Callable[[torch.Tensor], object], moved: float | None = 2) -> Op:
    """Return an operator of a square matrix."""

    def make(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        side = int(n**0.5)
        x = randn(side, side, dtype=dtype, device=device)
        return lambda: op(x)

    return Op(make, moved)


def _heads(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
    """[batch, seq, heads, dim] to contiguous [batch, heads, seq, dim]."""
    x = randn(max(1, n // (256 * 8 * 64)), 256, 8, 64, dtype=dtype, device=device).transpose(1, 2)
    return lambda: x.contiguous()


def _qkv_split(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
    """Copy one third of a fused row of queries, keys and values: a row-strided read."""
    x = randn(max(1, n // 1024), 3072, dtype=dtype, device=device)[:, 1024:2048]
    return lambda: x.contiguous()


def _rotary(n: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
    """The rotary embedding of Hugging Face models, composed of several kernels."""
    x = randn(max(1, n // (256 * 8 * 128)), 256, 8, 128, dtype=dtype, device=device).transpose(1, 2)
    cos = randn(1, 1, 256, 128, dtype=dtype, device=device)

    def call() -> object:
        half = torch.cat((-x[..., 64:], x[..., :64]), dim=-1)
        return x * cos + half * cos

    return call


_ATEN = torch.ops.aten
MAIN: dict[str, Op] = {
    "clone": unary(torch.clone),
    "add": binary(torch.add),
    "mul_scalar": unary(lambda x: x * 1.5),
    "gelu": unary(functional.gelu),
    "fill_": unary(lambda x: x.fill_(1.0), 1),
    "dropout": unary(lambda x: torch.native_dropout(x, 0.1, True), 2, 1),
    "add_row": rows(torch.add),
    "transpose_copy": square(lambda x: x.t().contiguous()),
    "stride2_copy": square(lambda x: x[:, ::2].contiguous(), None),
    "heads_copy": Op(_heads, None),
}
OTHER: dict[str, Op] = {
    "copy_": binary(lambda x, y: x.copy_(y), 2),
    "add_": binary(lambda x, y: x.add_(y)),
    "mul": binary(torch.mul),
    "add_scalar": unary(lambda x: x + 1.0),
    "gelu_tanh": unary(lambda x: functional.gelu(x, approximate="tanh")),
    "silu": unary(functional.silu),
    "relu": unary(torch.relu),
    "tanh": unary(torch.tanh),
    "sigmoid": unary(torch.sigmoid),
    "exp": unary(torch.exp),
    "neg": unary(torch.neg),
    "pow2": unary(lambda x: x.pow(2)),
    "pow3": unary(lambda x: torch.pow(x, 3.0)),
    "rsqrt": unary(torch.rsqrt),
    "cos": unary(torch.cos),
    "div": binary(torch.div),
    "zero_": unary(lambda x: x.zero_(), 1),
    "zeros": unary(lambda x: torch.zeros_like(x), 1),
    "gelu_backward": binary(_ATEN.gelu_backward),
    "silu_backward": binary(_ATEN.silu_backward),
    "threshold_backward": binary(lambda x, y: _ATEN.threshold_backward(x, y, 0)),
    "addcmul": binary(lambda x, y: torch.addcmul(x, x, y)),
    "lerp_": binary(lambda x, y: x.lerp_(y, 0.1)),
    "where": masked(lambda x, y, m: torch.where(m, x, y), 3),
    "masked_fill": masked(lambda x, _y, m: x.masked_fill(m, 0.0), 2),
    "dropout_backward": masked(lambda x, _y, m: _ATEN.native_dropout_backward(x, m, 1.1), 2),
    "to_float32": unary(lambda x: x.to(torch.float32), None),
    "to_bfloat16": unary(lambda x: x.to(torch.bfloat16), None),
    "to_float64": unary(lambda x: x.to(torch.float64), 1, 8),
    "gt_scalar": unary(lambda x: x > 0, 1, 1),
    "cat2": binary(lambda x, y: torch.cat((x, y)), 4),
    "stack4": unary(lambda x: torch.stack((x, x, x, x)), 5),
    "mul_row": rows(torch.mul),
    "add_transposed": square(lambda x: x + x.t()),
    "stride2_rows_copy": square(lambda x: x[::2].contiguous(), 1),
    "triu": square(torch.triu),
    "tril": square(torch.tril),
    "mul_column": square(lambda x: x * x[:, :1]),
    "qkv_split_copy": Op(_qkv_split, None),
    "rotary": Op(_rotary, None),
    "sub": binary(torch.sub),
    "rsub_scalar": unary(lambda x: 1.0 - x),
    "abs": unary(torch.abs),
    "sqrt": unary(torch.sqrt),
    "log": unary(torch.log),
    "sin": unary(torch.sin),
    "erf": unary(torch.erf),
    "reciprocal": unary(torch.reciprocal),
    "clamp": unary(lambda x: x.clamp(-1.0, 1.0)),
    "leaky_relu": unary(functional.leaky_relu),
    "elu": unary(functional.elu),
    "softplus": unary(functional.softplus),
    "hardswish": unary(functional.hardswish),
    "glu": square(lambda x: functional.glu(x[:, : x.shape[1] // 2 * 2], -1), 1.5),
    "maximum": binary(torch.maximum),
    "eq": binary(torch.eq, None),
    "logical_and": masked(lambda _x, _y, m: torch.logical_and(m, m), 0, 2),
    "bool_to_float": masked(lambda _x, _y, m: m.float(), 0, 5),
    "addcdiv_": binary(lambda x, y: x.addcdiv_(x, y, value=0.1)),
    "mul_": unary(lambda x: x.mul_(0.999)),
    "sigmoid_backward": binary(_ATEN.sigmoid_backward),
    "tanh_backward": binary(_ATEN.tanh_backward),
    "gelu_tanh_backward": binary(lambda x, y: _ATEN.gelu_backward(x, y, approximate="tanh")),
    "cat_last": square(lambda x: torch.cat((x, x), -1), 3),
    "roll": square(lambda x: torch.roll(x, (3, 3), (0, 1))),
    "pad": square(lambda x: functional.pad(x, (1, 1, 1, 1))),
    "flip": square(lambda x: x.flip(-1)),
    "repeat2": square(lambda x: x.repeat(2, 1), 3),
    "repeat_interleave": square(lambda x: x.repeat_interleave(2, 0), 3),
    "randn": unary(torch.randn_like, 1),
    "bernoulli": unary(lambda x: torch.empty_like(x).bernoulli_(0.5), 1),
    "arange": unary(lambda x: torch.arange(x.numel(), device=x.device), None),
}


@bench("pointwise", title=Text("Pointwise kernels"), quick_s=4, full_s=22, order=40)
def pointwise(context: Context) -> Iterator[Point]:
    """Measure pointwise kernels."""
    yield from context.time("pointwise", cases(context.quick))


def cases(quick: bool) -> Iterator[BenchCase]:
    """All cases, the main operators first; `quick` keeps these at three sizes, in bf16."""
    for name, op in MAIN.items():
        for dtype in ("bf16",) if quick else ("bf16", "fp32"):
            for n in QUICK if quick else SIZES:
                yield case(name, op, dtype, n)
    if quick:
        return
    for name, op in OTHER.items():
        for dtype in ("bf16", "fp32"):
            for n in FEWER:
                yield case(name, op, dtype, n)


def case(name: str, op: Op, dtype: str, n: int) -> BenchCase:
    """Return one operator on `n` elements."""
    moved = None
    if op.moved is not None:
        moved = n * (op.moved * DTYPES[dtype].itemsize + op.extra_bytes)
    states = ("hot", "cold", "cold_clean") if name in MAIN else ("hot", "cold")
    return BenchCase(
        "pointwise",
        {"op": name, "dtype": dtype, "n": n},
        lambda device: op.make(n, DTYPES[dtype], device),
        states,
        bytes=moved,
    )
