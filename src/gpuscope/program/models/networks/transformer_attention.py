"""Attention of a decoder: grouped-query, and multi-head latent attention."""

from __future__ import annotations

import math
from contextlib import nullcontext

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from gpuscope.program.models.networks import head_exchange
from gpuscope.program.models.networks.fused_steps import one_kernel
from gpuscope.program.models.networks.latent_steps import latent_key, latent_query
from gpuscope.program.models.networks.transformer_parts import Rotation, make_norm, rotate
from gpuscope.program.models.parallel.options import Software
from gpuscope.program.models.parallel.size import LatentAttention, TransformerSize

_ONLY = {
    "flash_only": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}

_FUSED = ("flash", *_ONLY)


def attend_causally(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, kind: str, window: int = 0
) -> torch.Tensor:
    """softmax(mask(Q K^T) / sqrt(d)) V over (sequences, heads, tokens, d).

    Keys and values may have fewer heads than queries. With "fused_softmax" the mask is left out:
    PyTorch has no kernel for scale, mask and softmax, and softmax alone moves the same bytes.

    Args:
        query, key, value: as above.
        kind: `Software.attention`.
        window: keys that a query sees at most, its own the last; 0: all before it.
    """
    window = window if window < key.shape[-2] or head_exchange.shared() else 0
    if head_exchange.shared():
        query, key, value = map(head_exchange.all_tokens, (query, key, value))
        return head_exchange.all_heads(_attend(query, key, value, kind, window))
    return _attend(query, key, value, kind, window)


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, kind: str, window: int
) -> torch.Tensor:
    if window and kind in _FUSED and query.device.type != "cpu":
        return _attend_near(query, key, value, window)
    if kind in _FUSED and not window:
        grouped = key.shape[1] != query.shape[1]
        with sdpa_kernel(_ONLY[kind]) if kind in _ONLY else nullcontext():
            return F.scaled_dot_product_attention(
                query, key, value, is_causal=True, enable_gqa=grouped
            )
    if key.shape[1] != query.shape[1]:
        copies = query.shape[1] // key.shape[1]
        key = key.repeat_interleave(copies, dim=1)
        value = value.repeat_interleave(copies, dim=1)
    scores = query @ key.transpose(-2, -1) * (1.0 / math.sqrt(query.shape[-1]))
    if kind == "fused_softmax":
        return scores.softmax(dim=-1) @ value
    tokens = query.shape[-2]
    hidden = torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).triu(1)
    if window:
        hidden = hidden | torch.ones_like(hidden).tril(-window)
    weights = scores.masked_fill(hidden, float("-inf")).float().softmax(dim=-1)
    return weights.to(value.dtype) @ value


def _attend_near(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, window: int
) -> torch.Tensor:
    """FlashAttention within a window: `scaled_dot_product_attention` has no argument for one."""
    query, key, value = (t.transpose(1, 2) for t in (query, key, value))
    tokens = query.shape[1], key.shape[1]
    out: torch.Tensor = torch.ops.aten._flash_attention_forward(
        query, key, value, None, None, *tokens, 0.0, True, False,
        window_size_left=window - 1, window_size_right=0,
    )[0]  # fmt: skip
    return out.transpose(1, 2)


class GroupedAttention(nn.Module):
    """Attention whose key-value heads each serve a group of query heads.

    The number of heads is read from what the projections give, so that a rank that holds a part
    of the heads runs the same code. With one product for all three projections its rows are laid
    out group after group: the queries of a group, its key, its value.
    """

    def __init__(self, size: TransformerSize, software: Software, window: int = 0) -> None:
        super().__init__()
        self.window = window
        self.head = size.head
        self.group = size.heads // size.kv_heads
        self.kind = software.attention
        self.rotated = size.positions == "rope"
        # Megatron-LM turns step by step where rotations scale, for which Transformer Engine has no
        # kernel (megatron/core/models/common/embeddings/rope_utils.py).
        turns = size.positions == "rope" and size.rope_factor == 1
        self.rotate = one_kernel(rotate, software.fused_steps and turns)
        wide, narrow = size.heads * size.head, size.kv_heads * size.head
        self.fused = software.fused_projections
        if self.fused:
            self.qkv = nn.Linear(size.hidden, wide + 2 * narrow, bias=size.qkv_bias)
        else:
            self.query = nn.Linear(size.hidden, wide, bias=size.qkv_bias)
            self.key = nn.Linear(size.hidden, narrow, bias=size.qkv_bias)
            self.value = nn.Linear(size.hidden, narrow, bias=size.qkv_bias)
        self.query_norm = make_norm(size, software, size.head) if size.head_norm else None
        self.key_norm = make_norm(size, software, size.head) if size.head_norm else None
        self.out = nn.Linear(wide, size.hidden, bias=size.out_bias)

    def forward(self, x: torch.Tensor, by: Rotation | None) -> torch.Tensor:
        """(sequences, tokens, hidden) -> the same."""
        query, key, value = self._projected(x)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        query, key, value = (t.transpose(1, 2) for t in (query, key, value))
        if self.rotated and by is not None:
            query, key = self.rotate(query, by), self.rotate(key, by)
        mixed = attend_causally(query, key, value, kind=self.kind, window=self.window)
        out: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out

    def _projected(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys, values, each (sequences, tokens, heads, features)."""
        if not self.fused:
            heads = (-1, self.head)
            query = self.query(x).unflatten(-1, heads)
            return query, self.key(x).unflatten(-1, heads), self.value(x).unflatten(-1, heads)
        groups = self.qkv(x).unflatten(-1, (-1, self.group + 2, self.head))
        query, key, value = groups.split((self.group, 1, 1), dim=-2)
        return query.flatten(2, 3), key.flatten(2, 3), value.flatten(2, 3)


class LatentAttentionBlock(nn.Module):
    """Multi-head latent attention as a training step computes it: keys and values expanded."""

    def __init__(self, size: TransformerSize, software: Software, latent: LatentAttention) -> None:
        super().__init__()
        self.latent = latent
        self.kind = software.attention
        self.again = software.latent_again
        self.fused = software.fused_steps and size.positions == "rope"
        self.rotate = one_kernel(rotate, self.fused)
        key = latent.plain_head + latent.rope_head
        rank, hidden = latent.query_rank, size.hidden
        if rank:
            self.query_down: nn.Module | None = nn.Linear(hidden, rank, bias=False)
            self.query_norm: nn.Module | None = make_norm(size, software, rank)
        else:
            self.query_down = self.query_norm = None
        self.query = nn.Linear(rank or hidden, size.heads * key, bias=False)
        self.down = nn.Linear(hidden, latent.key_rank + latent.rope_head, bias=False)
        self.rope_key = nn.Identity()  # where tensor parallel ranks sum the gradient of all heads
        self.norm = make_norm(size, software, latent.key_rank)
        expanded = size.heads * (latent.plain_head + latent.value_head)
        self.up = nn.Linear(latent.key_rank, expanded, bias=False)
        self.out = nn.Linear(size.heads * latent.value_head, hidden, bias=False)

    def forward(self, x: torch.Tensor, by: Rotation | None) -> torch.Tensor:
        """(sequences, tokens, hidden) -> the same."""
        parts, source = self.latent, x
        if self.query_down is not None and self.query_norm is not None:
            source = self.query_norm(self.query_down(x))
        wide = None if self.again else self.query(source)
        latent, rope_key = self.down(x).split((parts.key_rank, parts.rope_head), dim=-1)
        latent = self.norm(latent)
        if wide is None:
            query, key, value = checkpoint(
                self._projected,
                source,
                latent,
                self.rope_key(rope_key),
                by,
                use_reentrant=False,
                preserve_rng_state=False,
            )
        else:
            query, key, value = self._heads(wide, self.up(latent), self.rope_key(rope_key), by)
        mixed = attend_causally(query, key, value, kind=self.kind)
        out: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out

    def _projected(
        self,
        source: torch.Tensor,
        latent: torch.Tensor,
        rope_key: torch.Tensor,
        by: Rotation | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self._heads(self.query(source), self.up(latent), rope_key, by)

    def _heads(
        self,
        query: torch.Tensor,
        expanded: torch.Tensor,
        rope_key: torch.Tensor,
        by: Rotation | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values, each (sequences, heads, tokens, features)."""
        parts = self.latent
        key_head, both = parts.plain_head + parts.rope_head, parts.plain_head + parts.value_head
        query = torch.unflatten(query, -1, (-1, key_head))
        expanded = torch.unflatten(expanded, -1, (-1, both))
        if self.fused and by is not None:
            query = one_kernel(latent_query, True)(query, by, parts.rope_head)
            key, value = one_kernel(latent_key, True)(expanded, rope_key, by, parts.plain_head)
            return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        query, expanded = query.transpose(1, 2), expanded.transpose(1, 2)
        plain_key, value = torch.split(expanded, [parts.plain_head, parts.value_head], dim=-1)
        plain_query, rope_query = torch.split(query, [parts.plain_head, parts.rope_head], dim=-1)
        rope_key = rope_key.unsqueeze(1)
        if by is not None:
            rope_query, rope_key = self.rotate(rope_query, by), self.rotate(rope_key, by)
        query = torch.cat((plain_query, rope_query), dim=-1)
        key = torch.cat((plain_key, rope_key.expand(-1, query.shape[1], -1, -1)), dim=-1)
        return query, key, value


def make_attention(size: TransformerSize, software: Software, layer: int) -> nn.Module:
    """The attention of a block."""
    if size.latent is not None:
        return LatentAttentionBlock(size, software, size.latent)
    near = size.window is not None and size.is_near(layer)
    return GroupedAttention(size, software, size.window.tokens if size.window and near else 0)
