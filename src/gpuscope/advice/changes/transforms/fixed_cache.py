"""Key-value caches of transformers that stand still: a growing cache put into memory of its own.

A `DynamicCache` makes new memory for all its tokens with every token (`torch.cat`), so no two steps
have equal shapes or addresses and no CUDA graph can be replayed. Here such a cache is turned, as
the same object, into one over memory for more tokens than it has; a graph that was captured for
that memory is kept with it. The memory is used again once its cache is gone.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer, StaticCache, StaticLayer

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

__all__ = ["ROOM", "FixedLayer", "FixedMemory", "fixed"]

ROOM = 1152
"""Tokens more than a cache holds, at least, that it gets room for. Room that is not used costs
attention little (a tenth of a percent of a step of an 8-billion model for 100 tokens); a cache that
is full moves, and what was compiled or captured for its shapes is made anew."""

_ROUND = 256


class FixedLayer(StaticLayer):  # type: ignore[misc]
    """A layer's cache in memory that stays; its length is known to the host, too.

    Attributes:
        length: tokens that it holds.
        inside: the model is running: it must not learn the length from the host, or a compiled
            call would be compiled anew for each.
        graphs: what was captured for this memory, by the shapes of a call.
    """

    is_croppable = True
    keys: Any
    values: Any

    def __init__(self, capacity: int, like: Any) -> None:
        super().__init__(max_cache_len=capacity)
        self.length = 0
        self.inside = False
        self.graphs: dict[object, Any] = {}
        self.lazy_initialization(like.keys, like.values)
        for tensor in (self.keys, self.values, self.cumulative_length):
            # Without a guard on the address: memory of another cache must not compile anew.
            torch._dynamo.mark_static_address(tensor, guard=False)
        self._memory = (self.keys, self.values)

    def take(self, layer: Any) -> None:
        """Hold what another layer holds."""
        self.settle()
        self.length = layer.keys.shape[-2]
        for memory, given in zip(self._memory, (layer.keys, layer.values), strict=True):
            memory[..., : self.length, :].copy_(given)
        self.cumulative_length.fill_(self.length)

    def settle(self) -> None:
        """Hear that the code cut the cache (`layer.keys = layer.keys[..., :n, :]`)."""
        if self.keys is not self._memory[0]:
            self.length = min(int(self.keys.shape[-2]), self.length)
            self.keys, self.values = self._memory
            self.cumulative_length.fill_(self.length)

    def crop(self, tokens_to_remove: int) -> None:
        """As a growing layer: a negative number removes so many, a positive one leaves so many."""
        left = self.length + tokens_to_remove if tokens_to_remove <= 0 else tokens_to_remove
        self.length = max(0, min(left, self.length))
        self.cumulative_length.fill_(self.length)

    def get_seq_length(self) -> Any:
        """Tokens held: of the device while the model runs, else a number."""
        return self.cumulative_length if self.inside else self.length


def fixed(cache: object) -> list[FixedLayer]:
    """The layers of a cache that was turned into one that stands still; [] of any other."""
    layers = getattr(cache, "layers", None) or []
    return list(layers) if isinstance(layers[:1], list) and _all(layers, FixedLayer) else []


def _all(layers: Any, cls: type) -> bool:
    return bool(layers) and all(type(layer) is cls for layer in layers)


class FixedMemory:
    """Turns growing caches into ones that stand still, as calls of a model come by."""

    def __init__(self) -> None:
        self._free: dict[object, list[list[FixedLayer]]] = {}

    def wrap(self, module: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        """The model's call, with its cache turned before the first call of one token."""

        def called(*args: Any, **kwargs: Any) -> Any:
            cache = kwargs.get("past_key_values")
            tokens = _tokens(args, kwargs)
            if tokens == 0 or torch.is_grad_enabled():
                return call(*args, **kwargs)
            if cache is None:
                out = call(*args, **kwargs)
                # Right after the prompt, so that all of its tokens find the same memory.
                self._prepare(getattr(out, "past_key_values", None), 1)
                return out
            self._prepare(cache, tokens)
            layers = fixed(cache)
            if not layers:
                return call(*args, **kwargs)
            for layer in layers:
                layer.inside = True
            try:
                out = call(*args, **_padded(kwargs, layers[0]))
            finally:
                for layer in layers:
                    layer.inside = False
            for layer in layers:
                layer.length += tokens
            return out

        return called

    def _prepare(self, cache: Any, tokens: int) -> None:
        """Turn a growing cache that holds a context; give a full one more room."""
        layers = getattr(cache, "layers", None) or []
        for layer in fixed(cache):
            layer.settle()
        if fixed(cache):
            if layers[0].length + tokens > layers[0].max_cache_len:
                held = [_Held(layer) for layer in layers]
                self._fill(cache, held, tokens)
            return
        if not isinstance(cache, DynamicCache) or tokens != 1 or not cache.get_seq_length():
            return
        if not _all(layers, DynamicLayer):
            kinds = ", ".join(sorted({type(layer).__name__ for layer in layers}))
            raise UnsupportedError(
                Text("This model's cache cannot be put into memory that stays."),
                Text(
                    "Its layers are {kinds}; only plain attention over all tokens can.", kinds=kinds
                ),
                Text("Leave out static-cache and decode-graph."),
            )
        self._fill(cache, layers, tokens)

    def _fill(self, cache: Any, layers: list[Any], tokens: int) -> None:
        """Move what layers hold into fixed memory, and the cache with it."""
        held = layers[0].keys.shape[-2]
        room = max(ROOM, held) if isinstance(layers[0], _Held) else ROOM
        capacity = -(-(held + tokens + room - 1) // _ROUND) * _ROUND
        key = (capacity, *((_kind(x.keys), _kind(x.values)) for x in layers))
        free = self._free.setdefault(key, [])
        with torch.inference_mode(False), torch.no_grad():
            memory = free.pop() if free else [FixedLayer(capacity, layer) for layer in layers]
            for into, layer in zip(memory, layers, strict=True):
                into.take(layer)
        cache.layers = memory
        cache.layer_class_to_replicate = None
        cache.__class__ = StaticCache
        weakref.finalize(cache, free.append, memory)


class _Held:
    """What a full layer holds, as keys and values."""

    def __init__(self, layer: FixedLayer) -> None:
        self.keys = layer.keys[..., : layer.length, :]
        self.values = layer.values[..., : layer.length, :]


def _kind(tensor: torch.Tensor) -> tuple[object, ...]:
    """All of a shape but the tokens."""
    return (*tensor.shape[:-2], tensor.shape[-1], tensor.dtype, tensor.device)


def _tokens(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Tokens of each sequence in a call; 0 where there are none to be seen."""
    ids = kwargs.get("input_ids", args[0] if args else None)
    ids = kwargs.get("inputs_embeds") if ids is None else ids
    return int(ids.shape[1]) if isinstance(ids, torch.Tensor) and ids.dim() > 1 else 0


def _padded(kwargs: dict[str, Any], layer: FixedLayer) -> dict[str, Any]:
    """A mask over tokens that grows with them, at the full length instead."""
    mask = kwargs.get("attention_mask")
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2:
        return kwargs
    missing = layer.max_cache_len - mask.shape[-1]
    return {**kwargs, "attention_mask": torch.nn.functional.pad(mask, (0, missing))}
