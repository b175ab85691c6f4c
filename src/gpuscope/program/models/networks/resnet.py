"""ResNet (He et al. 2015) in the variant of torchvision: stride 2 sits in the 3x3 convolution."""

from __future__ import annotations

import torch
from torch import nn


def _conv(channels_in: int, channels: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels, size, stride, padding=size // 2, bias=False)


class Shortcut(nn.Sequential):
    """1x1 convolution and norm that fit the input to a block's output."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__(_conv(channels_in, channels, 1, stride), nn.BatchNorm2d(channels))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions (ResNet-18 and -34)."""

    expansion = 1

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv(channels_in, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _conv(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        fits = stride == 1 and channels_in == width
        self.downsample = None if fits else Shortcut(channels_in, width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, C_in, H, W) -> (N, width, H/stride, W/stride)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        result: torch.Tensor = self.relu(out)
        return result


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions (ResNet-50 and deeper)."""

    expansion = 4

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        channels = width * self.expansion
        self.conv1 = _conv(channels_in, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = _conv(width, channels, 1)
        self.bn3 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        fits = stride == 1 and channels_in == channels
        self.downsample = None if fits else Shortcut(channels_in, channels, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, C_in, H, W) -> (N, 4 * width, H/stride, W/stride)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        result: torch.Tensor = self.relu(out)
        return result


class ResNet(nn.Module):
    """Four stages of residual blocks.

    Args:
        depths: blocks of each stage.
        bottleneck: three-convolution blocks.
        classes: outputs of the classifier.
    """

    def __init__(self, depths: tuple[int, ...], *, bottleneck: bool, classes: int = 1000) -> None:
        super().__init__()
        block: type[BasicBlock] | type[Bottleneck] = Bottleneck if bottleneck else BasicBlock
        self.conv1 = _conv(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = 64
        for stage, depth in enumerate(depths):
            width = 64 * 2**stage
            blocks = []
            for index in range(depth):
                stride = 2 if stage and not index else 1
                blocks.append(block(channels, width, stride))
                channels = width * block.expansion
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.stages = len(depths)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def blocks(self) -> list[nn.Module]:
        """The residual blocks, first to last."""
        stages = [self.get_submodule(f"layer{stage + 1}") for stage in range(self.stages)]
        return [block for stage in stages for block in stage.children()]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (N, 3, H, W) -> class scores (N, classes)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in range(self.stages):
            x = self.get_submodule(f"layer{stage + 1}")(x)
        return self.fc(torch.flatten(self.avgpool(x), 1))  # type: ignore[no-any-return]
