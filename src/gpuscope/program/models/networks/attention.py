"""Multi-head self-attention with one projection for queries, keys and values."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, eager: bool
) -> torch.Tensor:
    """softmax(Q K^T / sqrt(d)) V over (N, heads, tokens, d), fused or step by step."""
    if not eager:
        return F.scaled_dot_product_attention(query, key, value)
    scores = (query * (1.0 / math.sqrt(query.shape[-1]))) @ key.transpose(-2, -1)
    return scores.softmax(dim=-1) @ value


class SelfAttention(nn.Module):
    """Every token attends to every token of its sequence."""

    def __init__(self, width: int, heads: int, *, eager: bool) -> None:
        super().__init__()
        self.heads = heads
        self.eager = eager
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, tokens, width) -> (N, tokens, width)."""
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = attend(query, key, value, eager=self.eager)
        out: torch.Tensor = self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return out
