"""Losses whose single number holds as much memory as all differences.

`mse_loss`, `smooth_l1_loss`, `binary_cross_entropy` and `soft_margin_loss` first make a result as
large as their inputs, and then give it the shape of one number (aten/src/ATen/native/BinaryOps.cpp,
`TORCH_META_FUNC(mse_loss)`; Loss.cpp): its storage stays that large for as long as the loss lives,
through the backward pass. A fake call's result is one number from the start.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch

_KEEPING = frozenset(
    f"aten::{name}"
    for name in ("mse_loss", "smooth_l1_loss", "binary_cross_entropy", "soft_margin_loss")
)


def keep_unreduced(name: str, args: Any, out: Any) -> None:
    """Make the storage of a loss as large as a real call leaves it.

    Args:
        name: of the operator, "aten::mse_loss".
        args: its first arguments; two tensors of shapes that go together.
        out: its result, a fake tensor.
    """
    if name not in _KEEPING or not isinstance(out, torch.Tensor) or out.dim():
        return
    whole = prod(torch.broadcast_shapes(args[0].shape, args[1].shape)) * out.element_size()
    storage = out.untyped_storage()
    if whole > storage.nbytes():
        storage.resize_(whole)
