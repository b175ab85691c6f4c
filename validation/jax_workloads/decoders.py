"""Steps of a decoder: trained in several ways, prefilled, and asked for tokens in a loop."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from parts import Program, adam_state, made, tokens, trained, values
from transformer import Size, logits, loss, norm, parameters


def _training(size: Size) -> Program:
    return trained(partial(loss, size)), made(
        lambda: adam_state(parameters(size)),
        lambda: tokens((size.batch, size.length), size.vocabulary),
    )


def plain() -> Program:
    """Float32 (TF32 in products), attention written out."""
    return _training(Size(layers=6, mixed=False))


def mixed() -> Program:
    """The same in bfloat16 with float32 parameters."""
    return _training(Size(layers=6))


def cudnn() -> Program:
    """Attention by cuDNN, longer sequences."""
    return _training(Size(layers=6, batch=4, length=2048, attention="cudnn"))


def by_xla() -> Program:
    """The same with the attention that XLA makes of `dot_product_attention`."""
    return _training(Size(layers=6, batch=4, length=2048, attention="xla"))


def scanned() -> Program:
    """24 layers as one scan."""
    return _training(Size(layers=24, width=1024, heads=16, batch=4, scanned=True))


def recomputed() -> Program:
    """The same, each layer recomputed in the backward pass."""
    return _training(Size(layers=24, width=1024, heads=16, batch=4, scanned=True, recomputed=True))


def prefill() -> Program:
    """Logits of a prompt, all in bfloat16."""
    size = Size(layers=8, width=2048, heads=16, batch=2, length=2048, attention="xla")
    step = jax.jit(lambda weights, ids: logits(size, weights, ids)[:, -1])
    return step, made(
        lambda: jax.tree.map(lambda p: p.astype(jnp.bfloat16), parameters(size)),
        lambda: tokens((size.batch, size.length), size.vocabulary),
    )


def decode() -> Program:
    """32 tokens one after the other, from 512 cached on; the cache is donated."""
    size = Size(layers=8, width=2048, heads=16, batch=8)
    room, begin, count, head = 1024, 512, 32, 128

    def one(weights: Any, carried: Any, _: Any) -> tuple[Any, jax.Array]:
        cache, token, at = carried
        x = weights["embedding"][token][:, None]

        def layer(x: jax.Array, both: Any) -> tuple[jax.Array, Any]:
            w, (keys, kept) = both
            b, _, d = x.shape
            qkv = norm(x, w["norm1"]) @ w["qkv"]
            q, k, v = (p.reshape(b, 1, size.heads, head) for p in jnp.split(qkv, 3, -1))
            keys = jax.lax.dynamic_update_slice(keys, k, (0, at, 0, 0))
            kept = jax.lax.dynamic_update_slice(kept, v, (0, at, 0, 0))
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, keys).astype(jnp.float32) * head**-0.5
            scores = jnp.where(jnp.arange(room) <= at, scores, -1e30)
            mean = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores).astype(x.dtype), kept)
            x = x + mean.reshape(b, 1, d) @ w["out"]
            x = x + jax.nn.gelu(norm(x, w["norm2"]) @ w["up"]) @ w["down"]
            return x, (keys, kept)

        x, cache = jax.lax.scan(layer, x, (weights["layers"], cache))
        found = (norm(x, weights["norm"]) @ weights["embedding"].T)[:, 0]
        token = jnp.argmax(found, axis=-1).astype(jnp.int32)
        return (cache, token, at + 1), token

    def step(cache: Any, weights: Any, token: jax.Array) -> tuple[Any, jax.Array]:
        start = (cache, token, jnp.int32(begin))
        (cache, _, _), found = jax.lax.scan(partial(one, weights), start, None, length=count)
        return cache, found

    shape = (size.layers, size.batch, room, size.heads, head)
    scanned_size = Size(layers=8, width=2048, heads=16, scanned=True)
    return jax.jit(step, donate_argnums=0), made(
        lambda: (values(shape, jnp.bfloat16), values(shape, jnp.bfloat16, seed=1)),
        lambda: jax.tree.map(lambda p: p.astype(jnp.bfloat16), parameters(scanned_size)),
        lambda: tokens((size.batch,), size.vocabulary),
    )
