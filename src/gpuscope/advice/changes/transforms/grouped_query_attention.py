"""Attention of few queries over grouped keys with a mask, without repeating the keys.

transformers repeats keys and values for every query head wherever there is a mask, as there is
with a cache of a fixed size (`transformers.integrations.sdpa_attention`: grouped heads with a mask
would fall back to the math kernel). For one query that writes and reads the cache once more for
every head of a group. The query heads of a group are rows of one product instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["MOST_QUERIES", "grouped"]

MOST_QUERIES = 8
"""Queries a head up to which keys are read by products; more are left to the usual kernels."""


def grouped(usual: Callable[..., Any]) -> Callable[..., Any]:
    """An attention function of transformers that takes few queries over grouped keys itself."""

    def attention(
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        **kwargs: Any,
    ) -> Any:
        few = query.shape[2] <= MOST_QUERIES and query.shape[1] > key.shape[1]
        special = any(kwargs.get(n) is not None for n in ("position_bias", "s_aux", "softcap"))
        if attention_mask is None or not few or dropout or special or torch.is_grad_enabled():
            return usual(
                module,
                query,
                key,
                value,
                attention_mask,
                dropout=dropout,
                scaling=scaling,
                **kwargs,
            )
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        return _products(query, key, value, attention_mask, scale), None

    return attention


def _products(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scale: float
) -> torch.Tensor:
    """(batch, heads, queries, size) over (batch, groups, tokens, size): as SDPA's formula."""
    batch, heads, queries, size = query.shape
    groups, tokens = key.shape[1], key.shape[2]
    rows = query.reshape(batch, groups, heads // groups * queries, size)
    scores = torch.matmul(rows, key.transpose(-1, -2)).float() * scale
    scores = scores.view(batch, groups, heads // groups, queries, tokens)
    mask = mask.view(mask.shape[0], 1, 1, *mask.shape[-2:])
    if mask.dtype == torch.bool:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    else:
        scores = scores + mask
    weights = torch.softmax(scores, -1).to(value.dtype)
    out = torch.matmul(weights.view(batch, groups, -1, tokens), value)
    return out.view(batch, heads, queries, -1).transpose(1, 2).contiguous()
