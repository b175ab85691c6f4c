"""Linear layers whose weights have 8 or 4 bits, in place of those of a model.

Only operators of PyTorch itself: weight-only 8 bits multiply and sum in the compiler's hands where
there is one row (eagerly, and with more rows, the weights are made whole first, which costs
more than it saves); 4 bits use `aten::_weight_int4pack_mm` (bfloat16, groups along a row); dynamic
8 bits quantise each row of the input too and use `torch._int_mm`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

__all__ = ["GROUP", "DynamicInt8", "Int4Weights", "Int8Weights", "replace_linears"]

GROUP = 128
"""Weights of a row that share a scale, at 4 bits."""

_INNER_TILES = 8
_INT_MM_ROWS = 17
"""`torch._int_mm` takes more than 16 rows."""


def _by_row(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Symmetric 8 bits with one scale a row: the integers, and the scales as float32."""
    scale = weight.abs().amax(1).float().clamp_min(1e-12) / 127
    return (weight.float() / scale.unsqueeze(1)).round().clamp(-127, 127).to(torch.int8), scale


class Int8Weights(nn.Module):
    """A linear layer that stores a byte a weight."""

    integers: torch.Tensor
    scale: torch.Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        integers, scale = _by_row(linear.weight.detach())
        self.register_buffer("integers", integers)
        self.register_buffer("scale", scale.to(linear.weight.dtype))
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As `nn.Linear`."""
        weight = self.integers.to(x.dtype)
        if torch.compiler.is_compiling() and x.numel() == x.shape[-1]:
            out = (x.unsqueeze(-2) * weight).sum(-1)
        else:
            out = nn.functional.linear(x, weight)
        out = out * self.scale
        return out if self.bias is None else out + self.bias


class DynamicInt8(nn.Module):
    """A linear layer that multiplies integers: weights and, row by row, inputs."""

    integers: torch.Tensor
    scale: torch.Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        integers, scale = _by_row(linear.weight.detach())
        self.register_buffer("integers", integers)
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As `nn.Linear`; few rows are filled up to 17 with zeros."""
        rows = x.reshape(-1, x.shape[-1])
        given = rows.abs().amax(1, keepdim=True).float().clamp_min(1e-12) / 127
        whole = (rows.float() / given).round().clamp(-127, 127).to(torch.int8)
        missing = _INT_MM_ROWS - whole.shape[0]
        if missing > 0:
            whole = nn.functional.pad(whole, (0, 0, 0, missing))
        product = torch._int_mm(whole, self.integers.t())[: rows.shape[0]]
        out = (product.float() * given * self.scale).to(x.dtype)
        out = out if self.bias is None else out + self.bias
        return out.view(*x.shape[:-1], -1)


class Int4Weights(nn.Module):
    """A linear layer that stores half a byte a weight, and a scale and a zero for 128."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        integers, scales_and_zeros = _by_group(linear.weight.detach())
        self.register_buffer("packed", _packed(integers))
        self.register_buffer("scales_and_zeros", scales_and_zeros)
        self.out_features = linear.out_features
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As `nn.Linear`."""
        rows = x.reshape(-1, x.shape[-1])
        out: torch.Tensor = torch.ops.aten._weight_int4pack_mm(
            rows, self.packed, GROUP, self.scales_and_zeros
        )
        out = out if self.bias is None else out + self.bias
        return out.view(*x.shape[:-1], self.out_features)


def _by_group(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers 0 to 15 by group, and (groups, rows, [scale, zero]) as the kernel takes them."""
    rows, columns = weight.shape
    groups = weight.float().view(rows, columns // GROUP, GROUP)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = ((high - low) / 15).clamp_min(1e-6)
    integers = ((groups - low) / scale).round().clamp(0, 15).to(torch.int32).view(rows, columns)
    # The kernel gives (q - 8) * scale + zero.
    zero = low + 8 * scale
    both = torch.cat([scale, zero], -1).to(torch.bfloat16).transpose(0, 1).contiguous()
    return integers, both


def _packed(integers: torch.Tensor) -> torch.Tensor:
    pairs = (integers[:, ::2] << 4 | integers[:, 1::2]).to(torch.uint8)
    packed: torch.Tensor = torch.ops.aten._convert_weight_to_int4pack(pairs, _INNER_TILES)
    return packed


def int4_takes(linear: nn.Linear) -> bool:
    """Whether the 4-bit kernel takes a layer: bfloat16, whole groups, rows by eights."""
    columns = linear.in_features
    return (
        linear.weight.dtype == torch.bfloat16
        and linear.weight.is_cuda
        and columns % max(GROUP, 16 * _INNER_TILES) == 0
        and linear.out_features % 8 == 0
    )


def replace_linears(
    model: nn.Module,
    made: Callable[[nn.Linear], nn.Module],
    takes: Callable[[nn.Linear], bool] = lambda _: True,
) -> int:
    """Put another module in the place of each plain linear layer; returns how many.

    Layers whose weight another module holds too (a head tied to the embedding) are left alone.
    """
    holders: dict[int, int] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            holders[id(parameter)] = holders.get(id(parameter), 0) + 1
    replaced = 0
    with torch.no_grad():
        for parent in list(model.modules()):
            for name, child in list(parent.named_children()):
                if type(child) is nn.Linear and holders[id(child.weight)] == 1 and takes(child):
                    new: Any = made(child).eval()
                    setattr(parent, name, new)
                    replaced += 1
    return replaced
