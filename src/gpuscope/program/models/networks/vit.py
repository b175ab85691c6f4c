"""Vision Transformer (Dosovitskiy et al. 2020): patches, a class token, pre-norm blocks."""

from __future__ import annotations

import torch
from torch import nn

from gpuscope.program.models.networks.attention import SelfAttention


class Block(nn.Module):
    """Attention and feed-forward, each normed before and added to its input."""

    def __init__(self, width: int, heads: int, *, eager: bool) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attention = SelfAttention(width, heads, eager=eager)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, tokens, width) -> (N, tokens, width)."""
        x = x + self.attention(self.norm1(x))
        out: torch.Tensor = x + self.mlp(self.norm2(x))
        return out


class VisionTransformer(nn.Module):
    """Image classifier.

    Args:
        patch: pixels of a patch's side.
        width: features of a token.
        layers: number of blocks.
        heads: attention heads.
        image: pixels of the image's side, a multiple of `patch`.
        classes: outputs of the classifier.
        eager_attention: attention as separate operators.
    """

    def __init__(
        self,
        *,
        patch: int,
        width: int,
        layers: int,
        heads: int,
        image: int = 224,
        classes: int = 1000,
        eager_attention: bool = False,
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.empty(1, (image // patch) ** 2 + 1, width))
        self.layers = nn.Sequential(
            *(Block(width, heads, eager=eager_attention) for _ in range(layers))
        )
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)
        nn.init.normal_(self.positions, std=0.02)

    def blocks(self) -> list[nn.Module]:
        """The transformer blocks, first to last."""
        return list(self.layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (N, 3, H, W) -> class scores (N, classes)."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1)
        x = self.layers(x + self.positions)
        scores: torch.Tensor = self.head(self.norm(x)[:, 0])
        return scores
