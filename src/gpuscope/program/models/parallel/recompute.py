"""Activations that the backward pass computes again instead of keeping them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from gpuscope.program.models.parallel.options import Recompute

_KEPT = (
    "aten::mm",
    "aten::addmm",
    "aten::_grouped_mm",
    "aten::_scaled_mm",
    "aten::linear",
    "aten::_flash_attention_forward",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "gpuscope::attention",
    "_c10d_functional::reduce_scatter_tensor",
    "_c10d_functional::all_gather_into_tensor",
    "_c10d_functional::all_reduce",
    "_c10d_functional::all_to_all_single",
    "_c10d_functional::wait_tensor",
)
"""Dear to compute or to send again. `aten::bmm` is not among them: the scores of eager attention
are large and quick to make, which is what Korthikanti et al. 2022 (arXiv:2205.05198) recompute."""


def apply_recompute(blocks: Iterable[nn.Module], how: Recompute) -> None:
    """Make every block keep less for its backward pass.

    Args:
        blocks: in their final form but for data parallelism.
        how: "none", "selective" or "full".
    """
    if how == "none":
        return
    more: dict[str, Any] = {}
    if how == "selective":
        more["context_fn"] = functools.partial(create_selective_checkpoint_contexts, _policy)
    for block in blocks:
        block.forward = functools.partial(
            checkpoint, block.forward, use_reentrant=False, preserve_rng_state=False, **more
        )


def _policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    packet = getattr(operator, "overloadpacket", operator)
    if getattr(packet, "_qualified_op_name", "") in _KEPT:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE
