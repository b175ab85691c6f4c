"""Embeddings, indexing, scatters and embedding bags, with their gradients."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from held_out.points import Params, backward, size, switches, tensor

OPS = (
    "embedding",
    "embedding_backward",
    "index_select",
    "index",
    "index_put",
    "index_add",
    "scatter_add",
    "gather",
    "bag",
    "bag_backward",
    "index_put_add",
    "nonzero",
)


def draw(rng: random.Random) -> Iterator[Params]:
    """About 110 points."""
    for at in range(108):
        while True:
            vocab, dim = size(rng, 2, 2000000), size(rng, 8, 6000, rng.choice((1, 8, 16)))
            count = size(rng, 8, 300000)
            if vocab * dim < 6e8 and count * dim < 1.5e8:
                break
        yield {
            "op": OPS[at % len(OPS)],
            "dtype": rng.choice(("fp32", "fp32", "bf16")),
            "vocab": vocab,
            "dim": dim,
            "count": count,
            "bag": rng.choice((1, 3, 10, 40)),
        }


def build(params: Params) -> Callable[[], object]:
    """One lookup or scatter; see `held_out.points.Point.build`."""
    import torch
    from torch.nn import functional as F

    p = params
    switches()
    table = tensor(p["dtype"], p["vocab"], p["dim"])
    index = torch.randint(0, p["vocab"], (p["count"],), device="cuda")
    rows = tensor(p["dtype"], p["count"], p["dim"])
    wide = index[:, None].expand(p["count"], p["dim"])
    offsets = torch.arange(0, p["count"], p["bag"], device="cuda")
    op = p["op"]
    if op == "bag_backward":
        table.requires_grad_()
        return backward(F.embedding_bag(index, table, offsets, mode="sum"), (table,))
    calls: dict[str, Callable[[], object]] = {
        "embedding": lambda: F.embedding(index, table),
        "embedding_backward": lambda: torch.ops.aten.embedding_dense_backward(
            rows, index, p["vocab"], -1, False
        ),
        "index_select": lambda: table.index_select(0, index),
        "index": lambda: table[index],
        "index_put": lambda: table.index_put_((index,), rows),
        "index_put_add": lambda: table.index_put_((index,), rows, accumulate=True),
        "index_add": lambda: table.index_add_(0, index, rows),
        "scatter_add": lambda: table.scatter_add_(0, wide, rows),
        "gather": lambda: table.gather(0, wide),
        "nonzero": lambda: torch.nonzero(rows > 1),
        "bag": lambda: F.embedding_bag(index, table, offsets, mode="sum"),
    }
    return calls[op]
