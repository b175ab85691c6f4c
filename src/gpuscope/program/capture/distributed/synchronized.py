"""Shapes of `SyncBatchNorm`'s operators, which a CPU-only torch has none for.

They follow aten/src/ATen/native/cuda/Normalization.cuh: statistics are one number a channel, in
float32 for half-precision inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch


def _channels(x: torch.Tensor) -> torch.Tensor:
    half = x.dtype in (torch.float16, torch.bfloat16)
    return x.new_empty((x.shape[1],), dtype=torch.float32 if half else x.dtype)


def _statistics(args: Any, kwargs: Any) -> Any:
    return _channels(args[0]), _channels(args[0])


def _like_first(args: Any, kwargs: Any) -> Any:
    return torch.empty_like(args[0])


def _reduced(args: Any, kwargs: Any) -> Any:
    x, weight = args[1], args[4]
    of_weight = None if weight is None else torch.empty_like(weight)
    of_bias = None if weight is None else torch.empty_like(weight)
    return _channels(x), _channels(x), of_weight, of_bias


SHAPES: Mapping[str, Callable[[Any, Any], Any]] = {
    "aten::batch_norm_stats": _statistics,
    "aten::batch_norm_elemt": _like_first,
    "aten::batch_norm_gather_stats_with_counts": _statistics,
    "aten::batch_norm_backward_reduce": _reduced,
    "aten::batch_norm_backward_elemt": _like_first,
}
"""Results by operator, from its arguments."""
