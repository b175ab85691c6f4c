"""Logits by a padded weight: an output layer of odd size multiplies with some rows of zeros more.

The parameters, their names and their values stay as they are; logits, loss and gradients are what
they were.
"""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["ALIGNED_BYTES", "FEWEST_ROWS", "SMALLEST", "pad_output", "padded_size"]

_MULTIPLE = 64
SMALLEST = 4096
"""Outputs narrower than this are no vocabulary, and their products no large part of a step."""
FEWEST_ROWS = 128
"""With fewer rows the product reads its weight once, whatever its shape, and a copy costs more."""
ALIGNED_BYTES = 16


def padded_size(size: int) -> int:
    """The next multiple of 64."""
    return -(-size // _MULTIPLE) * _MULTIPLE


def pad_output(root: Any, at_end: Any = None) -> None:
    """Let a model's wide output layers of odd size multiply with padded weights.

    Args:
        root: the model; its parameters, their names and their values stay as they are.
        at_end: takes a function that undoes it; None where it is to stay.
    """
    import torch

    for layer in root.modules():
        if type(layer) is not torch.nn.Linear or "forward" in vars(layer):
            continue
        out = layer.weight.shape[0]
        if out >= SMALLEST and out % (ALIGNED_BYTES // 2):
            vars(layer)["forward"] = functools.partial(_padded_forward, layer)
            if at_end is not None:
                at_end(functools.partial(_restore, layer))


def _restore(layer: Any) -> None:
    vars(layer).pop("forward", None)


def _padded_forward(layer: Any, x: Any) -> Any:
    """The layer's product with rows of zeros below its weight; their logits are cut off."""
    import torch
    from torch.nn import functional

    size, width = layer.weight.shape
    if x.numel() < FEWEST_ROWS * width:
        return functional.linear(x, layer.weight, layer.bias)
    weight, bias, device = layer.weight, layer.bias, x.device.type
    if torch.is_autocast_enabled(device):
        # Autocast would do so after the copy, which then moves twice the bytes.
        weight = weight.to(torch.get_autocast_dtype(device))
        bias = None if bias is None else bias.to(weight.dtype)
    rows = padded_size(size) - size
    weight = functional.pad(weight, (0, 0, 0, rows))
    bias = None if bias is None else functional.pad(bias, (0, rows))
    logits = functional.linear(x, weight, bias)[..., :size]
    # Half precision is cast by the loss, which makes it dense; float32 goes in as it is.
    return logits.contiguous() if logits.dtype is torch.float32 else logits
