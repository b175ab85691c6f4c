"""Linear layers of one input as one product: queries, keys and values; gate and up.

The weights of each become views of one matrix, so nothing is stored twice and their names stay. The
first layer computes all products when it is called, the others give their part of it; called with
another input, a layer computes its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

__all__ = ["SIBLINGS", "merge_linears"]

SIBLINGS = (
    ("q_proj", "k_proj", "v_proj"),
    ("gate_proj", "up_proj"),
    ("query", "key", "value"),
    ("wq", "wk", "wv"),
    ("w1", "w3"),
)
"""Names of layers that take the same input in common models, in the order of their calls."""


class _Merged:
    """One product for several layers, and what it gave until each has taken its part."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, sizes: list[int]) -> None:
        self.weight, self.bias, self.sizes = weight, bias, sizes
        self.given: Any = None
        self.parts: Any = None

    def first(self, x: torch.Tensor) -> torch.Tensor:
        """Compute all, take the first."""
        self.parts = torch.split(nn.functional.linear(x, self.weight, self.bias), self.sizes, -1)
        self.given = x
        return self.parts[0]  # type: ignore[no-any-return]

    def other(self, x: torch.Tensor, at: int) -> torch.Tensor:
        """Take a part; compute it where the input is another one."""
        if self.given is not x:
            begin, size = sum(self.sizes[:at]), self.sizes[at]
            bias = None if self.bias is None else self.bias[begin : begin + size]
            return nn.functional.linear(x, self.weight[begin : begin + size], bias)
        part = self.parts[at]
        if at == len(self.sizes) - 1:
            self.given = self.parts = None
        return part  # type: ignore[no-any-return]


def merge_linears(model: nn.Module) -> int:
    """Merge what can be merged, in place; returns how many layers were merged into others."""
    merged = 0
    for module in list(model.modules()):
        for names in SIBLINGS:
            layers = [getattr(module, name, None) for name in names]
            if all(type(layer) is nn.Linear for layer in layers) and _alike(layers):
                _merge(layers)
                merged += len(layers) - 1
    return merged


def _alike(layers: Sequence[Any]) -> bool:
    first = layers[0]
    weights = {id(layer.weight) for layer in layers}
    return len(weights) == len(layers) and all(
        layer.in_features == first.in_features
        and layer.weight.dtype == first.weight.dtype
        and layer.weight.device == first.weight.device
        and (layer.bias is None) == (first.bias is None)
        and "forward" not in vars(layer)
        and not layer._forward_hooks
        and not layer._forward_pre_hooks
        for layer in layers
    )


def _merge(layers: Sequence[Any]) -> None:
    sizes = [layer.out_features for layer in layers]
    with torch.no_grad():
        weight = torch.cat([layer.weight.detach() for layer in layers])
        bias = None
        if layers[0].bias is not None:
            bias = torch.cat([layer.bias.detach() for layer in layers])
        for layer, part in zip(layers, torch.split(weight, sizes), strict=True):
            layer.weight = nn.Parameter(part, requires_grad=False)
        if bias is not None:
            for layer, part in zip(layers, torch.split(bias, sizes), strict=True):
                layer.bias = nn.Parameter(part, requires_grad=False)
    shared = _Merged(weight, bias, sizes)
    for layer in layers:
        layer.gpuscope_merged = True  # its weight still says all that it does
    layers[0].forward = shared.first
    for at, layer in enumerate(layers[1:], 1):
        layer.forward = _Taking(shared, at)


class _Taking:
    """A layer's forward pass that takes its part."""

    def __init__(self, shared: _Merged, at: int) -> None:
        self.shared, self.at = shared, at

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The part for this input."""
        return self.shared.other(x, self.at)
