"""One token's forward pass as a CUDA graph: captured once, replayed for every token.

Needs a cache that stays where it is (`gpuscope.advice.changes.transforms.fixed_cache`). A graph
belongs to the memory of its cache and to the shapes of a call; the first calls run as they are and
warm up what is compiled. What a call returns is copied out of the graph's memory, so it may be
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import detect_fake_mode

from gpuscope.advice.changes.transforms.fixed_cache import fixed
from gpuscope.advice.changes.transforms.graph_marks import note_graph

__all__ = ["WARM_UP", "replayed"]

WARM_UP = 3
"""Calls before one is captured; a compiled model is compiled in the first two."""


@dataclass
class _Graph:
    """A captured call: its memory for inputs, and what it leaves in memory."""

    graph: Any
    given: dict[str, torch.Tensor]
    out: Any


def replayed(module: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """The model's call, with calls of one token replayed from a graph."""
    pretended = detect_fake_mode() is not None
    if pretended and any(True for _ in module.parameters()):
        note_graph(_compiled(module))

    def called(*args: Any, **kwargs: Any) -> Any:
        layers = fixed(kwargs.get("past_key_values"))
        if not layers or not _one_token(kwargs) or args or torch.is_grad_enabled():
            return call(*args, **kwargs)
        if pretended or not layers[0].keys.is_cuda:
            return call(**kwargs)
        graphs, key = layers[0].graphs, _key(kwargs)
        known = graphs.get(key, 0)
        if isinstance(known, _Graph):
            for name, tensor in known.given.items():
                tensor.copy_(kwargs[name])
            known.graph.replay()
            return _copied(known.out)
        if known < WARM_UP:
            graphs[key] = known + 1
            return call(**kwargs)
        graphs[key] = made = _capture(call, kwargs)
        made.graph.replay()
        return _copied(made.out)

    return called


def _capture(call: Callable[..., Any], kwargs: Mapping[str, Any]) -> _Graph:
    given = {k: v.clone() for k, v in kwargs.items() if isinstance(v, torch.Tensor)}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call(**{**kwargs, **given})
    return _Graph(graph, given, out)


def _one_token(kwargs: Mapping[str, Any]) -> bool:
    ids = kwargs.get("input_ids")
    return isinstance(ids, torch.Tensor) and ids.dim() == 2 and ids.shape[1] == 1


def _key(kwargs: Mapping[str, Any]) -> object:
    """What two calls must have in common to be one graph."""
    return tuple(
        (name, tuple(value.shape), value.dtype)
        if isinstance(value, torch.Tensor)
        else (name, repr(value))
        for name, value in sorted(kwargs.items())
        if name != "past_key_values"
    )


def _copied(out: Any) -> Any:
    """The same, its tensors in memory of their own."""
    if isinstance(out, torch.Tensor):
        return out.clone()
    if isinstance(out, Mapping):
        return type(out)(**{name: _copied(value) for name, value in out.items()})
    return type(out)(_copied(each) for each in out) if type(out) in (tuple, list) else out


def _compiled(module: Any) -> bool:
    return type(module).__name__ == "OptimizedModule" or any(
        getattr(each, "_compiled_call_impl", None) is not None for each in module.modules()
    )
