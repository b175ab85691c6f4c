"""The denoising UNet of Stable Diffusion 1.x (Rombach et al. 2022).

Residual blocks that know the time step, and transformers that attend to the text, at four
resolutions; skip connections from the way down to the way up.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn

from gpuscope.program.models.networks.attention import attend
from gpuscope.program.models.networks.timestep import TimestepEmbedding


class ResidualBlock(nn.Module):
    """Two convolutions; the time step's features are added between them."""

    def __init__(self, channels_in: int, channels: int, time_width: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(32, channels_in, eps=1e-5)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.time = nn.Linear(time_width, channels)
        self.norm2 = nn.GroupNorm(32, channels, eps=1e-5)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        fits = channels_in == channels
        self.shortcut = None if fits else nn.Conv2d(channels_in, channels, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """(N, C_in, H, W), (N, time_width) -> (N, C, H, W)."""
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        y = self.conv2(F.silu(self.norm2(y)))
        out: torch.Tensor = (x if self.shortcut is None else self.shortcut(x)) + y
        return out


class CrossAttention(nn.Module):
    """Attention from the picture to the picture itself or to the text."""

    def __init__(self, width: int, source_width: int, heads: int, *, eager: bool) -> None:
        super().__init__()
        self.heads, self.eager = heads, eager
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(source_width, width, bias=False)
        self.value = nn.Linear(source_width, width, bias=False)
        self.out = nn.Linear(width, width)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        return x.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        """(N, tokens, width), (N, source tokens, source_width) -> (N, tokens, width)."""
        parts = (self._split(y) for y in (self.query(x), self.key(source), self.value(source)))
        mixed = attend(*parts, eager=self.eager)
        out: torch.Tensor = self.out(mixed.transpose(1, 2).reshape(x.shape))
        return out


class GatedFeedForward(nn.Module):
    """GEGLU: half of the first layer's outputs gate the other half."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 8 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, tokens, width) -> (N, tokens, width)."""
        value, gate = self.up(x).chunk(2, dim=-1)
        out: torch.Tensor = self.down(value * F.gelu(gate))
        return out


class Transformer(nn.Module):
    """Pixels as tokens: self-attention, attention to the text, feed-forward."""

    def __init__(self, width: int, text_width: int, heads: int, *, eager: bool) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, width, eps=1e-6)
        self.proj_in = nn.Conv2d(width, width, 1)
        self.norm1 = nn.LayerNorm(width)
        self.self_attention = CrossAttention(width, width, heads, eager=eager)
        self.norm2 = nn.LayerNorm(width)
        self.text_attention = CrossAttention(width, text_width, heads, eager=eager)
        self.norm3 = nn.LayerNorm(width)
        self.feed_forward = GatedFeedForward(width)
        self.proj_out = nn.Conv2d(width, width, 1)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """(N, width, H, W), (N, text tokens, text_width) -> (N, width, H, W)."""
        batch, width, height, columns = x.shape
        y = self.proj_in(self.norm(x)).permute(0, 2, 3, 1).reshape(batch, -1, width)
        normed = self.norm1(y)
        y = y + self.self_attention(normed, normed)
        y = y + self.text_attention(self.norm2(y), text)
        y = y + self.feed_forward(self.norm3(y))
        y = y.reshape(batch, height, columns, width).permute(0, 3, 1, 2).contiguous()
        out: torch.Tensor = self.proj_out(y) + x
        return out


class Layer(nn.Module):
    """A residual block, and a transformer where the resolution has one."""

    def __init__(self, residual: ResidualBlock, transformer: Transformer | None) -> None:
        super().__init__()
        self.residual = residual
        self.transformer = transformer

    def forward(self, x: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """(N, C_in, H, W) -> (N, C, H, W)."""
        x = self.residual(x, time)
        return x if self.transformer is None else self.transformer(x, text)


class Upsample(nn.Conv2d):
    """Twice as many pixels a side, then a 3x3 convolution."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, C, H, W) -> (N, C, 2H, 2W)."""
        return super().forward(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class UNet(nn.Module):
    """Predicts the noise in a latent picture.

    Args:
        widths: channels of each resolution, finest first.
        attention: which resolutions have transformers.
        per_level: layers of a resolution on the way down; one more on the way up.
        heads: attention heads.
        text_width: features of a text token.
        latent: channels of the latent picture.
        eager_attention: attention as separate operators.
    """

    def __init__(
        self,
        *,
        widths: tuple[int, ...] = (320, 640, 1280, 1280),
        attention: tuple[bool, ...] = (True, True, True, False),
        per_level: int = 2,
        heads: int = 8,
        text_width: int = 768,
        latent: int = 4,
        eager_attention: bool = False,
    ) -> None:
        super().__init__()
        time_width = 4 * widths[0]
        self.time = TimestepEmbedding(widths[0], time_width)
        self.conv_in = nn.Conv2d(latent, widths[0], 3, padding=1)

        def layer(channels_in: int, channels: int, attends: bool) -> Layer:
            return Layer(
                ResidualBlock(channels_in, channels, time_width),
                Transformer(channels, text_width, heads, eager=eager_attention)
                if attends
                else None,
            )

        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        self.downsamplers, self.upsamplers = nn.ModuleList(), nn.ModuleList()
        skips, channels = [widths[0]], widths[0]
        for level, width in enumerate(widths):
            for _ in range(per_level):
                self.down.append(layer(channels, width, attention[level]))
                channels = width
                skips.append(channels)
            if level < len(widths) - 1:
                self.downsamplers.append(nn.Conv2d(width, width, 3, stride=2, padding=1))
                skips.append(width)
        self.middle = layer(channels, channels, True)
        self.middle_out = ResidualBlock(channels, channels, time_width)
        for level, width in reversed(list(enumerate(widths))):
            for _ in range(per_level + 1):
                self.up.append(layer(channels + skips.pop(), width, attention[level]))
                channels = width
            if level:
                self.upsamplers.append(Upsample(width, width, 3, padding=1))
        self.per_level = per_level
        self.norm_out = nn.GroupNorm(32, widths[0], eps=1e-5)
        self.conv_out = nn.Conv2d(widths[0], latent, 3, padding=1)

    def blocks(self) -> list[nn.Module]:
        """Layers down, the middle, layers up."""
        return [*self.down, self.middle, *self.up]

    def forward(self, x: torch.Tensor, steps: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """(N, latent, H, W), time steps (N,), (N, tokens, text_width) -> noise like x."""
        time = self.time(steps)
        x = self.conv_in(x)
        skips = [x]
        for index, layer in enumerate(self.down):
            x = layer(x, time, text)
            skips.append(x)
            level, last = divmod(index + 1, self.per_level)
            if not last and level <= len(self.downsamplers):
                x = self.downsamplers[level - 1](x)
                skips.append(x)
        x = self.middle_out(self.middle(x, time, text), time)
        for index, layer in enumerate(self.up):
            x = layer(torch.cat([x, skips.pop()], dim=1), time, text)
            level, last = divmod(index + 1, self.per_level + 1)
            if not last and level <= len(self.upsamplers):
                x = self.upsamplers[level - 1](x)
        noise: torch.Tensor = self.conv_out(F.silu(self.norm_out(x)))
        return noise
