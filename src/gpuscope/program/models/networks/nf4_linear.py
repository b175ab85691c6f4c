"""Linear layers with frozen 4-bit weights, laid out as `bitsandbytes` keeps them.

NF4 with double quantisation (Dettmers et al., "QLoRA", 2023, arXiv:2305.14314, section 3): two
weights a byte; one absolute maximum for each 64 of them in 8 bits; one float32 scale for each 256
of these. A product of many rows first writes the whole weight in bfloat16, in either pass, and
keeps neither that nor its input for the backward pass (`bitsandbytes.autograd.MatMul4Bit`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

BLOCK = 64
"""Weights that share one absolute maximum."""

SCALES = 256
"""Absolute maxima that share one float32 scale."""


@torch.library.custom_op("gpuscope::dequantize_scales", mutates_args=())
def dequantize_scales(maxima: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """8-bit absolute maxima (n,) -> float32 (n,)."""
    wide = scales.repeat_interleave(SCALES)[: maxima.numel()]
    return maxima.float() * wide


@dequantize_scales.register_fake
def _(maxima: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return maxima.new_empty(maxima.shape, dtype=torch.float32)


@torch.library.custom_op("gpuscope::dequantize_nf4", mutates_args=())
def dequantize_nf4(
    packed: torch.Tensor, maxima: torch.Tensor, rows: int, columns: int
) -> torch.Tensor:
    """Packed weights and their float32 maxima -> (rows, columns) in bfloat16."""
    halves = packed.view(torch.uint8).view(-1)
    codes = torch.stack((halves >> 4, halves & 15), dim=-1).view(-1)[: rows * columns]
    values = (codes.float() / 7.5 - 1) * maxima.repeat_interleave(BLOCK)[: rows * columns]
    return values.view(rows, columns).to(torch.bfloat16)


@dequantize_nf4.register_fake
def _(packed: torch.Tensor, maxima: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    return packed.new_empty((rows, columns), dtype=torch.bfloat16)


class _Product(torch.autograd.Function):
    """x W^T with W in 4 bits; only the gradient of x is needed."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        packed: torch.Tensor,
        maxima: torch.Tensor,
        scales: torch.Tensor,
        shape: tuple[int, int],
    ) -> torch.Tensor:
        """(..., K) -> (..., N)."""
        ctx.save_for_backward(packed, maxima, scales)
        ctx.shape = shape
        weight = dequantize_nf4(packed, dequantize_scales(maxima, scales), *shape)
        return nn.functional.linear(x, weight)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """(..., N) -> (..., K)."""
        packed, maxima, scales = ctx.saved_tensors
        weight = dequantize_nf4(packed, dequantize_scales(maxima, scales), *ctx.shape)
        return grad @ weight, None, None, None, None


class NF4Linear(nn.Module):
    """A linear layer whose frozen weight is held in 4 bits.

    Args:
        linear: what it stands for.
        storage: dtype that the bytes are kept as: uint8, or bfloat16 where FSDP shares them.
    """

    def __init__(self, linear: nn.Linear, storage: torch.dtype) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weights = linear.weight.numel()
        device, each = linear.weight.device, 2 * storage.itemsize
        packed = torch.zeros(-(-weights // each), 1, dtype=storage, device=device)
        self.weight = nn.Parameter(packed, requires_grad=False)
        blocks = -(-weights // BLOCK)
        self.register_buffer("maxima", torch.zeros(blocks, dtype=torch.uint8, device=device))
        scales = -(-blocks // SCALES)
        self.register_buffer("scales", torch.zeros(scales, dtype=torch.float32, device=device))
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., K) -> (..., N)."""
        shape = self.out_features, self.in_features
        out: torch.Tensor = _Product.apply(  # type: ignore[no-untyped-call]
            x.to(torch.bfloat16), self.weight, self.maxima, self.scales, shape
        )
        return (out if self.bias is None else out + self.bias.to(out.dtype)).to(x.dtype)
