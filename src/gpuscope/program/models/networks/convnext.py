"""ConvNeXt (Liu et al. 2022) in the form of torchvision: linear layers on channels-last data."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn

from gpuscope.program.models.networks.stochastic_depth import StochasticDepth


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of (N, C, H, W)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Block(nn.Module):
    """Depthwise 7x7 convolution, then a feed-forward network on every pixel."""

    def __init__(self, width: int, drop: float) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.activation = nn.GELU()
        self.down = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width, 1, 1), 1e-6))
        self.drop = StochasticDepth(drop)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, width, H, W) -> (N, width, H, W)."""
        y = self.depthwise(x).permute(0, 2, 3, 1)
        y = self.down(self.activation(self.up(self.norm(y)))).permute(0, 3, 1, 2)
        out: torch.Tensor = x + self.drop(self.scale * y)
        return out


class ConvNeXt(nn.Module):
    """Image classifier of four stages.

    Args:
        depths: blocks of each stage.
        widths: channels of each stage.
        drop: probability of dropping the last block's branch; earlier ones in proportion.
        classes: outputs of the classifier.
    """

    def __init__(
        self, *, depths: tuple[int, ...], widths: tuple[int, ...], drop: float, classes: int = 1000
    ) -> None:
        super().__init__()
        stem = nn.Sequential(nn.Conv2d(3, widths[0], 4, stride=4), ChannelNorm(widths[0], eps=1e-6))
        parts: list[nn.Module] = [stem]
        done, total = 0, sum(depths)
        for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            if stage:
                before = widths[stage - 1]
                parts.append(
                    nn.Sequential(
                        ChannelNorm(before, eps=1e-6), nn.Conv2d(before, width, 2, stride=2)
                    )
                )
            parts += [Block(width, drop * (done + i) / (total - 1)) for i in range(depth)]
            done += depth
        self.features = nn.Sequential(*parts)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.norm = ChannelNorm(widths[-1], eps=1e-6)
        self.head = nn.Linear(widths[-1], classes)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    def blocks(self) -> list[nn.Module]:
        """The residual blocks, first to last."""
        return [part for part in self.features if isinstance(part, Block)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (N, 3, H, W) -> class scores (N, classes)."""
        x = self.norm(self.avgpool(self.features(x)))
        scores: torch.Tensor = self.head(x.flatten(1))
        return scores
