"""A model's call as a CUDA graph, in inference: captured once for each set of shapes, replayed.

The first calls run as they are, and warm up what is made when first used. Inputs are copied into
the graph's memory, results out of it, so both are the caller's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.transforms.graph_marks import compiles, copied, note_graph

__all__ = ["WARM_UP", "replayed_calls"]

WARM_UP = 3
"""Calls with the same shapes before one is captured."""


@dataclass
class _Graph:
    graph: Any
    given: list[Any]
    out: Any


def replayed_calls(live: Live) -> Callable[[Any, Callable[..., Any]], Callable[..., Any]]:
    """For `Live.on_call`: a root module's call, replayed from a graph where nothing is trained."""
    return lambda module, call: _Replayed(live, module, call)


class _Replayed:
    """One module's call."""

    def __init__(self, live: Live, module: Any, call: Callable[..., Any]) -> None:
        self._live, self._module, self._call = live, module, call
        self._graphs: dict[object, int | _Graph] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As the module."""
        import torch
        from torch.utils._pytree import tree_flatten

        leaves, form = tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if torch.is_grad_enabled() or self._module.training or not tensors:
            return self._call(*args, **kwargs)
        if self._live.pretended:
            note_graph(compiles(self._live))
            return self._call(*args, **kwargs)
        if not all(tensor.is_cuda for tensor in tensors):
            return self._call(*args, **kwargs)
        key = (form, tuple(_told(leaf) for leaf in leaves), torch.is_autocast_enabled("cuda"))
        known = self._graphs.get(key, 0)
        if isinstance(known, int):
            self._graphs[key] = known + 1
            if known < WARM_UP:
                return self._call(*args, **kwargs)
            known = self._graphs[key] = self._captured(leaves, form)
        for place, tensor in zip(known.given, tensors, strict=True):
            place.copy_(tensor)
        known.graph.replay()
        return copied(known.out)

    def _captured(self, leaves: list[Any], form: Any) -> _Graph:
        import torch
        from torch.utils._pytree import tree_unflatten

        own = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(own, form)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = self._call(*args, **kwargs)
        return _Graph(graph, [leaf for leaf in own if isinstance(leaf, torch.Tensor)], out)


def _told(leaf: Any) -> object:
    """What two calls must have in common to be one graph."""
    import torch

    if isinstance(leaf, torch.Tensor):
        return tuple(leaf.shape), leaf.stride(), leaf.dtype
    return leaf if isinstance(leaf, (int, float, str, bool, type(None))) else id(leaf)
