"""Softmax, norms, losses, sums, sorting: forward and backward, by rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional

from gpuscope.document.text import Text
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import BenchCase
from gpuscope.measurement.bench.inputs import DTYPES, randn
from gpuscope.measurement.bench.reduction_images import image_cases
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point

Build = Callable[[int, int, torch.dtype, str], Callable[[], object]]
ROWS_COLUMNS = (
    (8192, 4096),
    (1024, 768),
    (98304, 1024),
    (8192, 768),
    (8192, 50257),
    (128, 768),
    (32768, 768),
    (1, 768),
    (1024, 4096),
    (16, 8192),
    (4096, 8192),
    (12288, 128),
    (98304, 128),
    (24576, 2048),
    (8192, 8192),
    (512, 50257),
    (4096, 128256),
    (1, 128256),
    (64, 1000),
    (1000000, 32),
    (64, 10),
)


@dataclass(frozen=True, slots=True)
class Op:
    """A reduction.

    Attributes:
        build: returns the call on [rows, columns].
        moved: elements read and written for each element of the input, at least; None where it
            is not that simple.
    """

    build: Build
    moved: float | None


def plain(op: Callable[[torch.Tensor], object], moved: float | None = 1) -> Op:
    """Return an operator of one tensor; it reads it, and writes little unless `moved` says so."""

    def make(rows: int, columns: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x = randn(rows, columns, dtype=dtype, device=device)
        return lambda: op(x)

    return Op(make, moved)


def backward(op: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], moved: float) -> Op:
    """Return the backward of `op(x, weight)` alone: the graph is built once and kept."""

    def make(rows: int, columns: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x = randn(rows, columns, dtype=dtype, device=device).requires_grad_()
        w = randn(columns, dtype=dtype, device=device).requires_grad_()
        out = op(x, w)
        grad = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, (x, w), grad, retain_graph=True, allow_unused=True)

    return Op(make, moved)


def weighted(op: Callable[[torch.Tensor, torch.Tensor], object], moved: float | None = 2) -> Op:
    """Return an operator of a tensor and one row of weights."""

    def make(rows: int, columns: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x = randn(rows, columns, dtype=dtype, device=device)
        w = randn(columns, dtype=dtype, device=device)
        return lambda: op(x, w)

    return Op(make, moved)


def _loss(direction: str) -> Op:
    def make(rows: int, columns: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x = randn(rows, columns, dtype=dtype, device=device).requires_grad_(direction == "bwd")
        target = torch.randint(0, columns, (rows,), device=device)
        if direction == "fwd":
            return lambda: functional.cross_entropy(x, target)
        loss = functional.cross_entropy(x, target)
        return lambda: torch.autograd.grad(loss, x, retain_graph=True)

    return Op(make, 1)


def _llama_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """RMS norm composed of separate operators, as in Hugging Face's Llama."""
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return w * wide.to(x.dtype)


def _layer_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x, (x.shape[-1],), w, w)


def _layer_norm_backward(
    rows: int, columns: int, dtype: torch.dtype, device: str
) -> Callable[[], object]:
    """Backward of a layer norm with a weight and a bias of its own."""
    x = randn(rows, columns, dtype=dtype, device=device).requires_grad_()
    w, b = (randn(columns, dtype=dtype, device=device).requires_grad_() for _ in range(2))
    out = functional.layer_norm(x, (columns,), w, b)
    grad = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (x, w, b), grad, retain_graph=True)


def _rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return functional.rms_norm(x, (x.shape[-1],), w)


OPS: dict[str, Op] = {
    "softmax": plain(lambda x: torch.softmax(x, -1), 2),
    "layer_norm": weighted(_layer_norm),
    "sum_last": plain(lambda x: x.sum(-1)),
    "sum_all": plain(torch.sum),
    "sum_first": plain(lambda x: x.sum(0)),
    "softmax_bwd": backward(lambda x, _w: torch.softmax(x, -1), 3),
    "layer_norm_bwd": Op(_layer_norm_backward, 3),
    "rms_norm": weighted(_rms_norm),
    "rms_norm_bwd": backward(_rms_norm, 3),
    "cross_entropy": _loss("fwd"),
    "cross_entropy_bwd": _loss("bwd"),
    "argmax": plain(lambda x: x.argmax(-1)),
    "log_softmax": plain(lambda x: torch.log_softmax(x, -1), 2),
    "log_softmax_bwd": backward(lambda x, _w: torch.log_softmax(x, -1), 3),
    "llama_rms_norm": weighted(_llama_norm),
    "mean_last": plain(lambda x: x.mean(-1)),
    "max_last": plain(lambda x: x.amax(-1)),
    "norm": plain(torch.linalg.vector_norm),
    "cumsum": plain(lambda x: x.cumsum(-1), 2),
}
RARE: dict[str, Op] = {
    "topk50": plain(lambda x: x.topk(min(50, x.shape[-1]), -1)),
    "sort": plain(lambda x: x.sort(-1), None),
    "softmax_dim0": plain(lambda x: torch.softmax(x, 0), 2),
    "multinomial": plain(lambda x: torch.multinomial(x.abs().float(), 1), None),
    "isfinite_all": plain(lambda x: torch.isfinite(x).all()),
    "logsumexp": plain(lambda x: x.logsumexp(-1)),
    "mse_loss": weighted(lambda x, w: functional.mse_loss(x, w.expand_as(x)), 1),
    "bce_logits": weighted(
        lambda x, w: functional.binary_cross_entropy_with_logits(x, w.expand_as(x)), None
    ),
    "sum_squares": plain(lambda x: (x * x).sum()),
    "any": plain(lambda x: x.any()),
    "max_with_index": plain(lambda x: x.max(-1)),
    "l2_normalize": plain(lambda x: functional.normalize(x, dim=-1), 2),
    "var_last": plain(lambda x: x.var(-1)),
}


@bench("reduction", title=Text("Reductions, norms, losses"), quick_s=4, full_s=27, order=50)
def reduction(context: Context) -> Iterator[Point]:
    """Measure reductions."""
    yield from context.time("reduction", cases(context.quick))


def cases(quick: bool) -> Iterator[BenchCase]:
    """All cases, those that show most first; `quick` keeps six operators at three shapes."""
    if quick:
        for name in list(OPS)[:6]:
            for rows, columns in ROWS_COLUMNS[:3]:
                yield case(name, OPS[name], "bf16", rows, columns)
        return
    for table, step in ((OPS, 1), (RARE, 3)):
        for number, (rows, columns) in enumerate(ROWS_COLUMNS[::step]):
            for dtype in ("bf16", "fp32")[: 1 if number >= 14 else 2]:
                for name, op in table.items():
                    yield case(name, op, dtype, rows, columns)
        if table is OPS:
            yield from image_cases()


def case(name: str, op: Op, dtype: str, rows: int, columns: int) -> BenchCase:
    """Return one operator on [rows, columns]."""
    moved = None
    if op.moved is not None:
        moved = op.moved * rows * columns * DTYPES[dtype].itemsize
    return BenchCase(
        "reduction",
        {"op": name, "dtype": dtype, "rows": rows, "cols": columns},
        lambda device: op.build(rows, columns, DTYPES[dtype], device),
        repetitions=6,
        bytes=moved,
    )
