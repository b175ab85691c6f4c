"""`torch.nn.functional.bilinear`: CUDA multiplies slice by slice where a fake sees one operator.

`aten::_trilinear` adds up products of three tensors; one of its dimensions is walked in a loop, two
batched products and a sum for each place: hundreds of launches where a layer has as many outputs
(aten/src/ATen/native/Linear.cpp, `_trilinear` and `sumproduct_pair`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["trilinear"]


def trilinear(
    i1: Any,
    i2: Any,
    i3: Any,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Any:
    """`aten::_trilinear` by the operators that it calls.

    Args:
        i1, i2, i3: the factors.
        expand1, expand2, expand3: dimensions that each of them lacks.
        sumdim: dimensions that are summed over.
        unroll_dim: the dimension that is walked.
    """
    total = i1.dim() + len(expand1)
    factors = []
    for factor, lacking in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for dim in sorted(lacking):
            factor = factor.unsqueeze(dim)
        factors.append(factor)
    first, second, third = factors
    sizes = [max(f.shape[dim] for f in factors) for dim in range(total)]
    summed = [dim for dim in sumdim if dim != unroll_dim]
    with_third = [dim for dim in summed if dim not in expand3]
    before = [dim for dim in summed if dim in expand3]
    out = i1.new_zeros([1 if dim in sumdim else n for dim, n in enumerate(sizes)])

    def slice_of(factor: Any, lacking: Sequence[int], at: int) -> Any:
        return factor.narrow(unroll_dim, 0 if unroll_dim in lacking else at, 1)

    for at in range(sizes[unroll_dim]):
        part = _sums_of_products(
            slice_of(first, expand1, at), slice_of(second, expand2, at), before
        )
        part = _sums_of_products(part, slice_of(third, expand3, at), with_third)
        out.narrow(unroll_dim, 0 if unroll_dim in sumdim else at, 1).add_(part)
    for dim in sorted(sumdim, reverse=True):
        out = out.squeeze(dim)
    return out


def _sums_of_products(left: Any, right: Any, summed: Sequence[int]) -> Any:
    """`sumproduct_pair`, keeping the summed dimensions: one batched product."""
    if not summed:
        return left * right
    both, only_left, only_right = [], [], []
    for dim in range(left.dim()):
        wide_left, wide_right = left.shape[dim] > 1, right.shape[dim] > 1
        if dim in summed:
            if wide_left and not wide_right:
                left = left.sum(dim, True)
            elif wide_right and not wide_left:
                right = right.sum(dim, True)
        elif wide_left and wide_right:
            both.append(dim)
        elif wide_left:
            only_left.append(dim)
        else:
            only_right.append(dim)
    added = list(summed)

    def size(tensor: Any, dims: Sequence[int]) -> int:
        return math.prod(tensor.shape[dim] for dim in dims)

    a = left.permute(*both, *only_left, *added, *only_right)
    a = a.reshape(size(left, both), size(left, only_left), size(left, added))
    b = right.permute(*both, *added, *only_right, *only_left)
    b = b.reshape(size(left, both), size(right, added), size(right, only_right))
    order = [*both, *only_left, *only_right, *added]
    kept = [(left if dim in both or dim in only_left else right).shape[dim] for dim in order]
    kept[len(order) - len(added) :] = [1] * len(added)
    product = torch.bmm(a, b).view(kept)
    return product.permute(*(order.index(dim) for dim in range(len(order))))
