"""Attention of ranks that share every sequence, each for its part of the heads.

Before attention each rank gives its tokens' other heads away and gets its own heads' other tokens,
and after it back (DeepSpeed Ulysses, arXiv:2309.14509; Transformer Engine's `cp_comm_type="a2a"`):
four exchanges of a block's activations forward, four backward, and attention as on one device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed._functional_collectives import all_to_all_single_autograd

_groups: list[Any] = []
"""The innermost last; none: each rank has whole sequences."""


@contextmanager
def heads_over(group: Any) -> Iterator[None]:
    """Inside, attention is shared by the ranks of a process group."""
    _groups.append(group)
    try:
        yield
    finally:
        _groups.pop()


def shared() -> bool:
    """Whether attention is shared now."""
    return bool(_groups)


def all_tokens(x: torch.Tensor) -> torch.Tensor:
    """(sequences, heads, part of the tokens, d) -> (sequences, part of the heads, tokens, d)."""
    group = _groups[-1]
    parts = torch.unflatten(x, 1, (group.size(), -1)).movedim(1, 0)
    return _exchanged(parts, group).movedim(0, 2).flatten(2, 3)


def all_heads(x: torch.Tensor) -> torch.Tensor:
    """(sequences, part of the heads, tokens, d) -> (sequences, heads, part of the tokens, d)."""
    group = _groups[-1]
    parts = torch.unflatten(x, 2, (group.size(), -1)).movedim(2, 0)
    return _exchanged(parts, group).movedim(0, 1).flatten(1, 2)


def _exchanged(parts: torch.Tensor, group: Any) -> torch.Tensor:
    """(ranks, ...): a part for each rank -> one from each."""
    found: torch.Tensor = all_to_all_single_autograd(parts.contiguous(), None, None, group)
    return found
