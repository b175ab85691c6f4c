"""Parameters as optimizers are given them: tensors, named ones, or groups of either."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["follow", "listed", "parameters_of"]


def listed(params: Any) -> list[Any]:
    """Parameters or groups as a list of our own, so that generators are not used up."""
    import torch

    if isinstance(params, torch.Tensor):
        return [params]
    groups = list(params)
    return [
        {**group, "params": listed(group["params"])} if isinstance(group, dict) else group
        for group in groups
    ]


def parameters_of(group: Any) -> list[Any]:
    """The tensors of one entry of what `listed` gives."""
    if isinstance(group, dict):
        return [p[1] if isinstance(p, tuple) else p for p in group["params"]]
    return [group[1] if isinstance(group, tuple) else group]


def follow(groups: list[Any], models: Iterable[Any], before: dict[int, dict[str, Any]]) -> None:
    """Put models' new parameters where their old ones stand.

    Args:
        groups: as `listed` gives them; changed in place.
        models: as they are now.
        before: what their parameters were: name to tensor, by the model's `id`.
    """
    renewed: dict[int, Any] = {}
    for module in models:
        new = dict(module.named_parameters())
        for name, old in before.get(id(module), {}).items():
            if name in new and new[name] is not old:
                renewed[id(old)] = new[name]
    if not renewed:
        return
    for at, group in enumerate(groups):
        if isinstance(group, dict):
            group["params"] = [renewed.get(id(p), p) for p in group["params"]]
        elif isinstance(group, tuple):
            groups[at] = (group[0], renewed.get(id(group[1]), group[1]))
        else:
            groups[at] = renewed.get(id(group), group)
