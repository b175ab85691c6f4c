"""Deep learning recommendation model (Naumov et al. 2019): tables, dot products, two networks."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn


def perceptron(widths: tuple[int, ...], *, last_relu: bool) -> nn.Sequential:
    """Linear layers with ReLU between them, and after the last one if asked."""
    parts: list[nn.Module] = []
    for width_in, width in pairwise(widths):
        parts += [nn.Linear(width_in, width), nn.ReLU()]
    return nn.Sequential(*(parts if last_relu else parts[:-1]))


class DLRM(nn.Module):
    """Scores a click from dense features and one categorical feature a table.

    Args:
        rows: entries of each embedding table.
        width: features of an embedding.
        bottom: widths of the network on the dense features; the last one is `width`.
        top: hidden widths of the network on the interactions; one output follows.
    """

    def __init__(
        self, *, rows: tuple[int, ...], width: int, bottom: tuple[int, ...], top: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.rows = rows
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, width, mode="sum") for n in rows)
        self.bottom = perceptron(bottom, last_relu=True)
        vectors = len(rows) + 1
        pairs = vectors * (vectors - 1) // 2
        self.top = perceptron((width + pairs, *top, 1), last_relu=False)
        index = torch.tril_indices(vectors, vectors, offset=-1)
        self.register_buffer("pairs", index, persistent=False)

    def forward(
        self, dense: torch.Tensor, indices: list[torch.Tensor], offsets: torch.Tensor
    ) -> torch.Tensor:
        """(N, dense features), one (N,) index tensor a table, (N,) offsets -> logits (N,)."""
        x = self.bottom(dense)
        looked_up = [table(i, offsets) for table, i in zip(self.tables, indices, strict=True)]
        vectors = torch.stack([x, *looked_up], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        pairs = self.get_buffer("pairs")
        interactions = products[:, pairs[0], pairs[1]]
        logits: torch.Tensor = self.top(torch.cat([x, interactions], dim=1))
        return logits.squeeze(1)
