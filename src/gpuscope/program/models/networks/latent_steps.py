"""Queries, keys and values of latent attention as Megatron-LM makes them: one kernel each.

`apply_rope_fusion` turns the rotary features and puts keys together from what each head has and
what all share (megatron/core/fusions/fused_mla_yarn_rope_apply.py). All have their tokens before
their heads, so nothing is copied before or after attention.
"""

from __future__ import annotations

import torch

from gpuscope.program.models.networks.transformer_parts import Rotation, rotate


def latent_query(query: torch.Tensor, by: Rotation, turned: int) -> torch.Tensor:
    """Queries of latent attention with their positions (`fused_apply_mla_rope_for_q`).

    megatron/core/fusions/fused_mla_yarn_rope_apply.py changes the turned features in place; here
    the others are copied too, so half again as many bytes move as there.

    Args:
        query: (sequences, tokens, heads, features).
        by: cosines and sines, (tokens, turned features).
        turned: how many features are turned, the last ones.
    """
    plain, rope = torch.split(query, [query.shape[-1] - turned, turned], dim=-1)
    return torch.cat((plain, rotate(rope, (by[0].unsqueeze(1), by[1].unsqueeze(1)))), dim=-1)


def latent_key(
    expanded: torch.Tensor, shared: torch.Tensor, by: Rotation, plain: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of latent attention (`fused_apply_mla_rope_for_kv`, the same file).

    Args:
        expanded: (sequences, tokens, heads, plain features and a value's).
        shared: the turned features that all heads share, (sequences, tokens, features).
        by: cosines and sines, (tokens, features).
        plain: features of a key that are not turned.
    """
    own, value = torch.split(expanded, [plain, expanded.shape[-1] - plain], dim=-1)
    turned = rotate(shared, by).unsqueeze(2).expand(-1, -1, expanded.shape[2], -1)
    return torch.cat((own, turned), dim=-1), value.contiguous()
