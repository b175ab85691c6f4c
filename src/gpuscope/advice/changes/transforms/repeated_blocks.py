"""The repeated blocks of a live model: what recomputation and regional compilation work on."""

from __future__ import annotations

from collections import Counter
from typing import Any

__all__ = ["repeated_blocks"]


def repeated_blocks(model: Any) -> list[Any]:
    """All modules of the class that the model's longest list of equal blocks is made of.

    Only modules that hold others count as blocks (a list of plain layers is none), and of nested
    ones the outermost. An encoder and a decoder of the same class are found together.

    Args:
        model: a `torch.nn.Module`.

    Returns:
        The blocks in the order of `named_modules`; [] where nothing is repeated.
    """
    import torch

    largest, count = None, 1
    for held in model.modules():
        if not isinstance(held, (torch.nn.ModuleList, torch.nn.Sequential)):
            continue
        kinds = Counter(type(m) for m in held if any(True for _ in m.children()))
        for kind, number in kinds.most_common(1):
            if number > count:
                largest, count = kind, number
    return [] if largest is None else _outermost(model, largest)


def _outermost(module: Any, kind: type) -> list[Any]:
    if type(module) is kind:
        return [module]
    return [block for child in module.children() for block in _outermost(child, kind)]
