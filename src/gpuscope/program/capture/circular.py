"""Circular padding, on the device: C++ asks a fake for its device and would pad on the host.

The steps are those of `_pad_circular` in aten/src/ATen/native/PadNd.cpp: an empty result, its
middle copied from the input, then each side from the other end.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


def pad(x: torch.Tensor, padding: Sequence[int]) -> torch.Tensor:
    """`x`, continued around its last dimensions by `padding` (last dimension first)."""
    sides = [
        (x.dim() - 1 - i, padding[2 * i], padding[2 * i + 1]) for i in range(len(padding) // 2)
    ]
    shape = list(x.shape)
    for dim, left, right in sides:
        shape[dim] += left + right
    out = x.new_empty(shape)
    middle, inside = out, x
    for dim, left, right in sides:
        middle = middle.narrow(dim, max(left, 0), shape[dim] - max(left, 0) - max(right, 0))
        kept = x.shape[dim] - max(-left, 0) - max(-right, 0)
        inside = inside.narrow(dim, max(-left, 0), kept)
    middle.copy_(inside)
    for dim, left, right in sides:
        end = shape[dim] - max(right, 0)
        if left > 0:
            out.narrow(dim, 0, left).copy_(out.narrow(dim, end - left, left))
        if right > 0:
            out.narrow(dim, end, right).copy_(out.narrow(dim, max(left, 0), right))
    return out
