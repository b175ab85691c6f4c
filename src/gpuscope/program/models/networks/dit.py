"""Diffusion transformer (Peebles and Xie 2022): blocks modulated by time step and class."""

from __future__ import annotations

import torch
from torch import nn

from gpuscope.program.models.networks.attention import SelfAttention
from gpuscope.program.models.networks.timestep import TimestepEmbedding, sinusoid


def modulate(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Scale and shift (N, tokens, width) by one vector a sample."""
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


def position_table(side: int, width: int) -> torch.Tensor:
    """Sinusoids of the row and of the column, (1, side * side, width)."""
    line = sinusoid(torch.arange(side), width // 2)
    rows = line[:, None].expand(side, side, -1)
    columns = line[None].expand(side, side, -1)
    return torch.cat([columns, rows], dim=-1).reshape(1, side * side, width)


class Block(nn.Module):
    """Attention and feed-forward with adaptive layer norm."""

    def __init__(self, width: int, heads: int, *, eager: bool) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.attention = SelfAttention(width, heads, eager=eager)
        self.norm2 = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """(N, tokens, width), (N, width) -> (N, tokens, width)."""
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(condition).chunk(6, dim=1)
        mixed = self.attention(modulate(self.norm1(x), shift1, scale1))
        x = x + gate1.unsqueeze(1) * mixed
        fed = self.mlp(modulate(self.norm2(x), shift2, scale2))
        out: torch.Tensor = x + gate2.unsqueeze(1) * fed
        return out


class DiffusionTransformer(nn.Module):
    """Predicts noise and variance of a latent picture of a class.

    Args:
        width: features of a token.
        layers: number of blocks.
        heads: attention heads.
        patch: latent pixels of a patch's side.
        image: pixels of the picture's side; the latent picture has an eighth of them.
        latent: channels of the latent picture.
        classes: labels, besides the empty one for guidance.
        eager_attention: attention as separate operators.
    """

    def __init__(
        self,
        *,
        width: int,
        layers: int,
        heads: int,
        patch: int,
        image: int = 256,
        latent: int = 4,
        classes: int = 1000,
        eager_attention: bool = False,
    ) -> None:
        super().__init__()
        side = image // 8 // patch
        self.patch, self.side, self.out_channels = patch, side, 2 * latent
        self.patches = nn.Conv2d(latent, width, patch, stride=patch)
        self.time = TimestepEmbedding(256, width)
        self.classes = nn.Embedding(classes + 1, width)
        self.positions = nn.Parameter(torch.empty(1, side * side, width), requires_grad=False)
        self.layers = nn.ModuleList(
            Block(width, heads, eager=eager_attention) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.head = nn.Linear(width, patch * patch * self.out_channels)
        self.positions.copy_(position_table(side, width))

    def blocks(self) -> list[nn.Module]:
        """The transformer blocks, first to last."""
        return list(self.layers)

    def forward(self, x: torch.Tensor, steps: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """(N, latent, H, W), time steps (N,), class labels (N,) -> (N, 2 * latent, H, W)."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        condition = self.time(steps) + self.classes(labels)
        for layer in self.layers:
            x = layer(x, condition)
        shift, scale = self.modulation(condition).chunk(2, dim=1)
        x = self.head(modulate(self.norm(x), shift, scale))
        x = x.view(-1, self.side, self.side, self.patch, self.patch, self.out_channels)
        pixels = self.side * self.patch
        return x.permute(0, 5, 1, 3, 2, 4).reshape(-1, self.out_channels, pixels, pixels)
