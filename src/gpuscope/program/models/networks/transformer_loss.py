"""The loss of the next token, whole or in pieces."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn
from torch.utils.checkpoint import checkpoint


def next_token_loss(
    output: nn.Module, x: torch.Tensor, labels: torch.Tensor, chunks: int = 1
) -> torch.Tensor:
    """Mean cross-entropy of the scores that `output` gives.

    Args:
        output: from (sequences, tokens, hidden) to scores of the vocabulary.
        x: (sequences, tokens, hidden).
        labels: (sequences, tokens).
        chunks: pieces along the tokens; each piece's scores are computed again in the backward
            pass instead of being kept, so that they never exist whole.
    """
    if chunks == 1:
        return _sum_of(output, x, labels) / labels.numel()
    total = x.new_zeros((), dtype=torch.float32)
    for part, wanted in zip(x.chunk(chunks, dim=1), labels.chunk(chunks, dim=1), strict=True):
        total = total + checkpoint(_sum_of, output, part, wanted, use_reentrant=False)
    return total / labels.numel()


def _sum_of(output: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    scores = output(x).flatten(0, 1).float()
    return F.cross_entropy(scores, labels.flatten(), reduction="sum")
