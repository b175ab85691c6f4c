"""Embedding lookups and their gradients, indexing, scatter."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from harness import DTYPES, Point, randn
from torch.nn import functional

OPS = (
    "embedding", "embedding_backward", "index_select", "index", "index_put", "index_add",
    "scatter_add", "gather", "nonzero", "embedding_bag", "embedding_bag_backward", "masked_select",
)  # fmt: skip
SHAPES = (
    (50257, 768, 1000), (50257, 768, 8192), (50257, 768, 32768), (128256, 4096, 1024),
    (128256, 4096, 8192), (128256, 4096, 100000), (1000000, 64, 2048), (1000000, 64, 65536),
    (1000000, 128, 1000000), (1024, 768, 1024), (2, 768, 8192), (10000000, 16, 65536),
)  # fmt: skip


def _make(
    op: str, vocab: int, dim: int, count: int, dtype: str
) -> Callable[[str], Callable[[], object]]:
    def make(device: str) -> Callable[[], object]:
        table = randn(vocab, dim, dtype=DTYPES[dtype], device=device)
        index = torch.randint(0, vocab, (count,), device=device)
        rows = randn(count, dim, dtype=DTYPES[dtype], device=device)
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

    return make


def points(quick: bool) -> Iterator[Point]:
    """All gather and scatter points; ``quick`` keeps two table sizes."""
    for op in OPS:
        for vocab, dim, count in SHAPES[:2] if quick else SHAPES:
            for dtype in ("fp32", "bf16"):
                if dtype == "bf16" and op.startswith("embedding_bag"):
                    continue
                params = {"op": op, "dtype": dtype, "vocab": vocab, "dim": dim, "count": count}
                yield Point("gather", params, _make(op, vocab, dim, count, dtype), reps=6)
