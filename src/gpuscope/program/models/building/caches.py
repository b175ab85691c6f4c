"""Key-value caches that hold a given context before a decode step, and stay that long."""

from __future__ import annotations

from typing import Any

import torch

Shape = tuple[int, ...]


def heads_shapes(config: Any, batch: int) -> list[tuple[Shape, Shape]]:
    """Key and value shapes of one token per layer: (batch, key-value heads, 1, head size)."""
    heads = config.num_attention_heads
    size = _attribute(config, "head_dim", "d_kv") or config.hidden_size // heads
    shape = (batch, _attribute(config, "num_key_value_heads") or heads, 1, size)
    layers = _attribute(config, "decoder_layers", "num_decoder_layers", "num_hidden_layers")
    return [(shape, shape)] * layers


def _attribute(config: Any, *names: str) -> int:
    """The first of these attributes that is set, or 0."""
    found = (getattr(config, name, None) for name in names)
    return next((int(value) for value in found if value), 0)


@torch.no_grad()
def probed_shapes(model: Any, token: torch.Tensor) -> list[tuple[Shape, Shape]]:
    """The same, read from the cache that one forward pass of one token fills."""
    cache = model(input_ids=token, use_cache=True).past_key_values
    return [(tuple(key.shape), tuple(value.shape)) for key, value in entries(cache)]


def entries(cache: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values that a cache holds now, by layer."""
    if hasattr(cache, "layers"):
        return [(layer.keys, layer.values) for layer in cache.layers]
    return list(zip(cache.key_cache, cache.value_cache, strict=True))


def filled_cache(
    config: Any, shapes: list[tuple[Shape, Shape]], tokens: int, dtype: torch.dtype, device: str
) -> Any:
    """A `DynamicCache` as it is after `tokens` tokens.

    Layers with a sliding window keep the window only, as they do in a real run.

    Args:
        config: the model's configuration, which says which layers slide.
        shapes: key and value shapes of one token per layer; dimension -2 counts tokens.
        tokens: context length.
        dtype, device: of the cached tensors.
    """
    from transformers.cache_utils import DynamicCache

    try:
        cache = DynamicCache(config=config)
    except TypeError:  # transformers before 4.56 has no such argument
        cache = DynamicCache()
    for layer, pair in enumerate(shapes):
        key, value = (
            torch.randn(*shape[:-2], tokens, shape[-1], dtype=dtype, device=device)
            for shape in pair
        )
        cache.update(key, value, layer)
    return cache


class SteadyCache:
    """Takes back the token that a decode step appended, so that every step is alike.

    Appending copies a layer's whole keys and values into new memory (`torch.cat`), as it does in
    a real run. Taking back makes views only: a step has two of them more per layer than a real
    one.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self._lengths = [key.shape[-2] for key, _ in entries(cache)]
        self._seen = [
            getattr(layer, "cumulative_length", None) for layer in getattr(cache, "layers", ())
        ]

    def rewind(self) -> None:
        """Bring the cache back to the length it had when this object was made."""
        if not hasattr(self._cache, "layers"):
            for tensors in (self._cache.key_cache, self._cache.value_cache):
                for index, length in enumerate(self._lengths):
                    tensors[index] = tensors[index][..., :length, :]
            self._cache._seen_tokens = self._lengths[0]
            return
        layers = self._cache.layers
        for layer, length, seen in zip(layers, self._lengths, self._seen, strict=True):
            if layer.keys.shape[-2] > length:
                layer.keys = layer.keys[..., :length, :]
                layer.values = layer.values[..., :length, :]
            if seen is not None:
                layer.cumulative_length = seen
