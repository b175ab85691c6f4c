"""Stochastic depth (Huang et al. 2016): drop a residual branch for some samples in training."""

from __future__ import annotations

import torch
from torch import nn


class StochasticDepth(nn.Module):
    """Zero the whole branch of each sample with probability `drop`, and scale the others up."""

    def __init__(self, drop: float) -> None:
        super().__init__()
        self.drop = drop

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape; the first dimension counts samples."""
        if not self.training or self.drop == 0.0:
            return x
        kept = 1.0 - self.drop
        noise = torch.empty((x.shape[0], *[1] * (x.ndim - 1)), dtype=x.dtype, device=x.device)
        return x * noise.bernoulli_(kept).div_(kept)
