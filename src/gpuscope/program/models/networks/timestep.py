"""Sinusoidal features of a diffusion time step and the small network on them."""

from __future__ import annotations

import math

import torch
from torch import nn


def sinusoid(steps: torch.Tensor, width: int) -> torch.Tensor:
    """Time steps (N,) -> cosines and sines at geometric frequencies (N, width), float32."""
    half = width // 2
    exponent = torch.arange(half, dtype=torch.float32, device=steps.device) / half
    angles = steps[:, None].float() * torch.exp(-math.log(10000.0) * exponent)[None]
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


class TimestepEmbedding(nn.Module):
    """Two linear layers over the sinusoid."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.features = features
        self.mlp = nn.Sequential(nn.Linear(features, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        """Time steps (N,) -> (N, width) in the dtype of the weights."""
        weight = next(self.parameters())
        out: torch.Tensor = self.mlp(sinusoid(steps, self.features).to(weight.dtype))
        return out
