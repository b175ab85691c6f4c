"""Swin Transformer (Liu et al. 2021) in the form of torchvision: attention in shifted windows."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn

from gpuscope.program.models.networks.stochastic_depth import StochasticDepth


def relative_index(window: int) -> torch.Tensor:
    """For every pair of pixels of a window, which row of the bias table is theirs; flat."""
    line = torch.arange(window)
    rows, columns = (part.flatten() for part in torch.meshgrid(line, line, indexing="ij"))
    vertical = rows[:, None] - rows[None, :] + window - 1
    horizontal = columns[:, None] - columns[None, :] + window - 1
    return (vertical * (2 * window - 1) + horizontal).flatten()


class WindowAttention(nn.Module):
    """Attention inside windows of `window` x `window` pixels, with a learned relative bias."""

    def __init__(self, width: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.bias_table = nn.Parameter(torch.empty((2 * window - 1) ** 2, heads))
        self.register_buffer("bias_index", relative_index(window))
        nn.init.trunc_normal_(self.bias_table, std=0.02)

    def _bias(self) -> torch.Tensor:
        pixels = self.window**2
        bias = self.bias_table[self.get_buffer("bias_index")].view(pixels, pixels, -1)
        return bias.permute(2, 0, 1).contiguous().unsqueeze(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, H, W, width) -> (N, H, W, width)."""
        batch, height, width, channels = x.shape
        w = self.window
        x = F.pad(x, (0, 0, 0, -width % w, 0, -height % w))
        padded_h, padded_w = x.shape[1:3]
        shifts = [0 if w >= size else self.shift for size in (padded_h, padded_w)]
        if sum(shifts):
            x = torch.roll(x, (-shifts[0], -shifts[1]), (1, 2))
        windows = (padded_h // w) * (padded_w // w)
        x = x.view(batch, padded_h // w, w, padded_w // w, w, channels)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(batch * windows, w * w, channels)
        x = self._attend(x, windows, (padded_h, padded_w), shifts)
        x = x.view(batch, padded_h // w, padded_w // w, w, w, channels)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(batch, padded_h, padded_w, channels)
        if sum(shifts):
            x = torch.roll(x, (shifts[0], shifts[1]), (1, 2))
        return x[:, :height, :width, :].contiguous()

    def _attend(
        self, x: torch.Tensor, windows: int, size: tuple[int, int], shifts: list[int]
    ) -> torch.Tensor:
        count, pixels, channels = x.shape
        qkv = self.qkv(x).reshape(count, pixels, 3, self.heads, channels // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        query = query * (channels // self.heads) ** -0.5
        scores = query.matmul(key.transpose(-2, -1)) + self._bias()
        if sum(shifts):
            mask = self._mask(x, windows, size, shifts)
            scores = scores.view(-1, windows, self.heads, pixels, pixels)
            scores = (scores + mask.unsqueeze(1).unsqueeze(0)).view(-1, self.heads, pixels, pixels)
        mixed = F.softmax(scores, dim=-1).matmul(value).transpose(1, 2)
        out: torch.Tensor = self.proj(mixed.reshape(count, pixels, channels))
        return out

    def _mask(
        self, x: torch.Tensor, windows: int, size: tuple[int, int], shifts: list[int]
    ) -> torch.Tensor:
        """-100 between pixels that are neighbours only because of the cyclic shift."""
        w = self.window
        regions = x.new_zeros(size)
        region = 0
        for rows in ((0, -w), (-w, -shifts[0]), (-shifts[0], None)):
            for columns in ((0, -w), (-w, -shifts[1]), (-shifts[1], None)):
                regions[rows[0] : rows[1], columns[0] : columns[1]] = region
                region += 1
        regions = regions.view(size[0] // w, w, size[1] // w, w)
        regions = regions.permute(0, 2, 1, 3).reshape(windows, w * w)
        apart = regions.unsqueeze(1) - regions.unsqueeze(2)
        return apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)


class Block(nn.Module):
    """Window attention and feed-forward, each normed before and added to its input."""

    def __init__(self, width: int, heads: int, window: int, shift: int, drop: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-5)
        self.attention = WindowAttention(width, heads, window, shift)
        self.drop = StochasticDepth(drop)
        self.norm2 = nn.LayerNorm(width, eps=1e-5)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, H, W, width) -> (N, H, W, width)."""
        x = x + self.drop(self.attention(self.norm1(x)))
        out: torch.Tensor = x + self.drop(self.mlp(self.norm2(x)))
        return out


class PatchMerging(nn.Module):
    """Four neighbouring pixels become one with twice the features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width, eps=1e-5)
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, H, W, width) -> (N, H/2, W/2, 2 * width)."""
        x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        corners = (x[:, i::2, j::2, :] for j in (0, 1) for i in (0, 1))
        out: torch.Tensor = self.reduction(self.norm(torch.cat(list(corners), -1)))
        return out


class ToChannelsLast(nn.Module):
    """(N, C, H, W) -> (N, H, W, C)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return x.permute(0, 2, 3, 1)


class SwinTransformer(nn.Module):
    """Image classifier of four stages.

    Args:
        width: features of the first stage; each later one has twice as many.
        depths: blocks of each stage.
        heads: attention heads of each stage.
        window: pixels of a window's side.
        drop: probability of dropping the last block's branches; earlier ones in proportion.
        classes: outputs of the classifier.
    """

    def __init__(
        self,
        *,
        width: int,
        depths: tuple[int, ...],
        heads: tuple[int, ...],
        drop: float,
        window: int = 7,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        parts: list[nn.Module] = [
            nn.Sequential(nn.Conv2d(3, width, 4, stride=4), ToChannelsLast(), nn.LayerNorm(width))
        ]
        done, total = 0, sum(depths)
        for stage, depth in enumerate(depths):
            if stage:
                parts.append(PatchMerging(width))
                width *= 2
            for index in range(depth):
                shift = window // 2 if index % 2 else 0
                rate = drop * (done + index) / (total - 1)
                parts.append(Block(width, heads[stage], window, shift, rate))
            done += depth
        self.features = nn.Sequential(*parts)
        self.norm = nn.LayerNorm(width, eps=1e-5)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(width, classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)

    def blocks(self) -> list[nn.Module]:
        """The transformer blocks, first to last."""
        return [part for part in self.features if isinstance(part, Block)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (N, 3, H, W) -> class scores (N, classes)."""
        x = self.norm(self.features(x)).permute(0, 3, 1, 2)
        scores: torch.Tensor = self.head(self.avgpool(x).flatten(1))
        return scores
