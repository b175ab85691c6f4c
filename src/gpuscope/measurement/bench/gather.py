"""Embedding lookups and their gradients, indexing, scatter."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch.nn import functional

from gpuscope.document.text import Text
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import BenchCase
from gpuscope.measurement.bench.inputs import DTYPES, randn
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point, Value

MOVED: dict[str, float | None] = {
    "embedding": 2,
    "index_add": 3,
    "scatter_add": 3,
    "index_select": 2,
    "embedding_backward": None,
    "index": 2,
    "index_put": 2,
    "gather": 2,
    "nonzero": None,
    "embedding_bag": None,
    "embedding_bag_backward": None,
    "masked_select": None,
}
"""Operators, and how often each looked-up element is read or written at least."""

SHAPES = (
    (128256, 4096, 8192),
    (50257, 768, 8192),
    (1000000, 64, 65536),
    (50257, 768, 1000),
    (50257, 768, 32768),
    (128256, 4096, 1024),
    (1000000, 64, 2048),
    (1000000, 128, 1000000),
    (1024, 768, 1024),
    (2, 768, 8192),
    (10000000, 16, 65536),
    (128256, 4096, 100000),
)
"""Rows of the table, columns, rows that are looked up."""


@bench("gather", title=Text("Gather and scatter"), quick_s=2, full_s=8, order=60)
def gather(context: Context) -> Iterator[Point]:
    """Measure lookups and scatters."""
    yield from context.time("gather", cases(context.quick))


def cases(quick: bool) -> Iterator[BenchCase]:
    """All cases; `quick` keeps three operators on three tables, in bf16."""
    for rows, columns, count in SHAPES[:3] if quick else SHAPES:
        for op in list(MOVED)[:3] if quick else MOVED:
            for dtype in ("bf16",) if quick else ("fp32", "bf16"):
                if dtype == "fp32" or not op.startswith("embedding_bag"):
                    yield case(op, rows, columns, count, dtype)


def case(op: str, vocab: int, dim: int, count: int, dtype: str) -> BenchCase:
    """Return one operator on a table of [vocab, dim] with `count` random rows."""
    params: dict[str, Value] = {
        "op": op,
        "dtype": dtype,
        "vocab": vocab,
        "dim": dim,
        "count": count,
    }
    moved, index = MOVED[op], 8 * count
    least = None if moved is None else moved * count * dim * DTYPES[dtype].itemsize + index
    if least is not None and count > vocab:  # rows come again: only distinct ones are sure to move
        least = None
    return BenchCase(
        "gather",
        params,
        lambda device: _call(op, vocab, dim, count, DTYPES[dtype], device),
        repetitions=6,
        bytes=least,
    )


def _call(
    op: str, vocab: int, dim: int, count: int, dtype: torch.dtype, device: str
) -> Callable[[], object]:
    table = randn(vocab, dim, dtype=dtype, device=device)
    index = torch.randint(0, vocab, (count,), device=device)
    rows = randn(count, dim, dtype=dtype, device=device)
    wide = index[:, None].expand(count, dim)
    offsets = torch.arange(0, count, 4, device=device)
    if op == "embedding_bag_backward":
        table.requires_grad_()
        out = functional.embedding_bag(index, table, offsets, mode="sum")
        grad = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, table, grad, retain_graph=True)
    calls: dict[str, Callable[[], object]] = {
        "embedding": lambda: functional.embedding(index, table),
        "embedding_backward": lambda: torch.ops.aten.embedding_dense_backward(
            rows, index, vocab, -1, False
        ),
        "index_select": lambda: table.index_select(0, index),
        "index": lambda: table[index],
        "index_put": lambda: table.index_put_((index,), rows),
        "index_add": lambda: table.index_add_(0, index, rows),
        "scatter_add": lambda: table.scatter_add_(0, wide, rows),
        "gather": lambda: table.gather(0, wide),
        "nonzero": lambda: torch.nonzero(index > vocab // 2),
        "masked_select": lambda: rows.masked_select(rows > 0),
        "embedding_bag": lambda: functional.embedding_bag(index, table, offsets, mode="sum"),
    }
    return calls[op]
