"""Products of matrices, a perceptron that is trained, gradients of single examples."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
from parts import Program, adam_state, cross_entropy, half, made, tokens, trained, values


def bfloat16() -> Program:
    """Four large products with GELU between them."""

    def step(x: jax.Array, weights: list[jax.Array]) -> jax.Array:
        for weight in weights:
            x = jax.nn.gelu(x @ weight)
        return x

    return jax.jit(step), made(
        lambda: values((8192, 8192), jnp.bfloat16),
        lambda: [values((8192, 8192), jnp.bfloat16, seed=each) for each in range(4)],
    )


def float32() -> Program:
    """Float32 as it comes (TF32), shapes that are no powers of two, a bias and a residual."""

    def step(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
        for _ in range(4):
            x = x + jax.nn.relu(x @ weight + bias)
        return x

    return jax.jit(step), made(
        lambda: values((5000, 3000)), lambda: values((3000, 3000), seed=1), lambda: values((3000,))
    )


def batched() -> Program:
    """Products of many small matrices and a softmax of the result."""

    def step(q: jax.Array, k: jax.Array) -> jax.Array:
        scores = jnp.einsum("bqd,bkd->bqk", q, k)
        return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores, axis=-1), k)

    return jax.jit(step), made(
        lambda: values((384, 512, 64), jnp.bfloat16), lambda: values((384, 512, 64), jnp.bfloat16)
    )


def _perceptron(width: int, depth: int, classes: int) -> list[tuple[jax.Array, jax.Array]]:
    sizes = [width] * depth + [classes]
    return [
        (values((a, b), seed=at), jnp.zeros((b,)))
        for at, (a, b) in enumerate(itertools.pairwise(sizes))
    ]


def _forward(weights: Any, x: jax.Array) -> jax.Array:
    for weight, bias in weights[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    return x @ weights[-1][0] + weights[-1][1]


def perceptron() -> Program:
    """Training of six layers in mixed precision."""

    def loss(weights: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return cross_entropy(_forward(half(weights), x), y)

    return trained(loss), made(
        lambda: adam_state(_perceptron(4096, 6, 1000)),
        lambda: values((4096, 4096), jnp.bfloat16),
        lambda: tokens((4096,), 1000),
    )


def per_example() -> Program:
    """`vmap` of a gradient: the norm of each example's, and their clipped sum (as DP-SGD takes)."""

    def loss(weights: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return cross_entropy(_forward(weights, x[None]), y[None])

    def step(weights: Any, x: jax.Array, y: jax.Array) -> Any:
        each = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(weights, x, y)
        squares = sum(jnp.sum(g * g, axis=tuple(range(1, g.ndim))) for g in jax.tree.leaves(each))
        scale = jnp.minimum(1.0, jax.lax.rsqrt(squares))
        return jax.tree.map(lambda g: jnp.tensordot(scale, g, 1), each)

    return jax.jit(step), made(
        lambda: _perceptron(1024, 4, 128), lambda: values((256, 1024)), lambda: tokens((256,), 128)
    )


def ensemble() -> Program:
    """`vmap` over eight models that are trained side by side."""

    def loss(weights: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(lambda w: cross_entropy(_forward(half(w), x), y))(weights))

    def models() -> Any:
        one = _perceptron(2048, 4, 128)
        return [
            (values((8, *w.shape), seed=at), jnp.zeros((8, *b.shape)))
            for at, (w, b) in enumerate(one)
        ]

    return trained(loss), made(
        lambda: adam_state(models()),
        lambda: values((1024, 2048), jnp.bfloat16),
        lambda: tokens((1024,), 128),
    )
