"""Dropout switched off, so that two variants that draw other random numbers can be compared."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["switch_off"]

_FUNCTIONS = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_alpha_dropout",
)


def switch_off(live: Live) -> list[int]:
    """Make every dropout of torch pass its input on, until the end.

    Covers modules and functions of `torch.nn`, dropout inside scaled dot-product attention and
    between the layers of recurrent networks.

    Returns:
        A list of one number: how many active dropouts were met so far.
    """
    import torch
    import torch.nn.functional as F  # noqa: N812 - its usual name

    met = [0]
    for name in _FUNCTIONS:
        live.set(F, name, _pass_on(getattr(F, name), met))
    live.set(torch, "dropout", _pass_on(torch.dropout, met))
    live.set(
        F, "scaled_dot_product_attention", _without_dropout(F.scaled_dot_product_attention, met)
    )
    live.on_model(lambda module: _modules_off(module, met))
    return met


def _pass_on(original: Any, met: list[int]) -> Any:
    @functools.wraps(original)
    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if training and p > 0:
            met[0] += 1
        return input

    return dropout


def _without_dropout(original: Any, met: list[int]) -> Any:
    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **options: Any,
    ) -> Any:
        if dropout_p > 0:
            met[0] += 1
        return original(query, key, value, attn_mask, 0.0, is_causal, **options)

    return attention


def _modules_off(module: Any, met: list[int]) -> None:
    """Modules keep their own probability: for names imported before they were replaced."""
    import torch

    for each in module.modules():
        if isinstance(each, torch.nn.modules.dropout._DropoutNd) and each.p > 0:
            met[0] += each.training
            each.p = 0.0
        elif isinstance(each, torch.nn.RNNBase) and each.dropout > 0:
            met[0] += each.training
            each.dropout = 0.0
