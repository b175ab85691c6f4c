"""A decoder (GPT-2's layer) for the programs that train, scan, recompute and shard one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from parts import cross_entropy, half, values


@dataclass(frozen=True)
class Size:
    """Of a decoder and its batch.

    Attributes:
        layers, width, heads, vocabulary: of the model.
        batch, length: of a step.
        attention: "plain" (products and softmax), "xla" or "cudnn" (`dot_product_attention`).
        mixed: compute in bfloat16 with parameters in float32.
        scanned: the layers as one `jax.lax.scan`.
        recomputed: keep each layer's input alone (`jax.checkpoint`).
    """

    layers: int = 12
    width: int = 768
    heads: int = 12
    vocabulary: int = 32_000
    batch: int = 8
    length: int = 512
    attention: str = "plain"
    mixed: bool = True
    scanned: bool = False
    recomputed: bool = False


def _layer(size: Size, seed: int) -> dict[str, jax.Array]:
    d = size.width
    return {
        "norm1": jnp.ones((d,)), "norm2": jnp.ones((d,)),
        "qkv": values((d, 3 * d), seed=seed), "out": values((d, d), seed=seed + 1),
        "up": values((d, 4 * d), seed=seed + 2), "down": values((4 * d, d), seed=seed + 3),
    }  # fmt: skip


def parameters(size: Size) -> Any:
    """Parameters in float32; those of scanned layers stacked."""
    if size.scanned:
        one = _layer(size, 0)
        layers: Any = {
            name: values((size.layers, *leaf.shape), seed=3) if leaf.ndim > 1
            else jnp.ones((size.layers, *leaf.shape))
            for name, leaf in one.items()
        }  # fmt: skip
    else:
        layers = [_layer(size, 4 * index) for index in range(size.layers)]
    return {
        "embedding": values((size.vocabulary, size.width), seed=1),
        "positions": values((size.length, size.width), seed=2),
        "layers": layers,
        "norm": jnp.ones((size.width,)),
    }


def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Root mean square norm, computed in float32."""
    wide = x.astype(jnp.float32)
    root = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)
    return (wide * root).astype(x.dtype) * scale.astype(x.dtype)


def attention(q: jax.Array, k: jax.Array, v: jax.Array, kind: str) -> jax.Array:
    """Causal attention over [batch, length, heads, head size]."""
    if kind != "plain":
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=kind)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    length = q.shape[1]
    mask = jnp.tril(jnp.ones((length, length), bool))
    scores = jnp.where(mask, scores.astype(jnp.float32), -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores).astype(v.dtype), v)


def block(size: Size, x: jax.Array, layer: dict[str, jax.Array]) -> jax.Array:
    """One layer."""
    b, s, d = x.shape
    qkv = norm(x, layer["norm1"]) @ layer["qkv"]
    q, k, v = (part.reshape(b, s, size.heads, d // size.heads) for part in jnp.split(qkv, 3, -1))
    x = x + attention(q, k, v, size.attention).reshape(b, s, d) @ layer["out"]
    return x + jax.nn.gelu(norm(x, layer["norm2"]) @ layer["up"]) @ layer["down"]


def logits(size: Size, weights: Any, ids: jax.Array) -> jax.Array:
    """Of every position."""
    if size.mixed:
        weights = half(weights)
    x = weights["embedding"][ids] + weights["positions"][: ids.shape[1]]

    def one(x: jax.Array, layer: dict[str, jax.Array]) -> jax.Array:
        return block(size, x, layer)

    if size.recomputed:
        one = jax.checkpoint(one)
    if size.scanned:
        x, _ = jax.lax.scan(lambda x, layer: (one(x, layer), None), x, weights["layers"])
    else:
        for layer in weights["layers"]:
            x = one(x, layer)
    return norm(x, weights["norm"]) @ weights["embedding"].T


def loss(size: Size, weights: Any, ids: jax.Array) -> jax.Array:
    """Cross entropy of the next token."""
    return cross_entropy(logits(size, weights, ids)[:, :-1], ids[:, 1:])
