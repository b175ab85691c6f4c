"""What the programs share: values without a generator of random numbers, Adam, a loss, layers.

A program is a function without arguments that returns `(step, arguments)`: a jitted function and
the arrays of one call. No value of an array is looked at, so `jax.eval_shape` of it tells the
shapes without making one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Program = tuple[Any, tuple[Any, ...]]


def values(shape: tuple[int, ...], dtype: Any = jnp.float32, seed: int = 0) -> jax.Array:
    """Numbers between -s and s that follow no pattern, s = 1/sqrt of the last axis but one.

    One fused kernel without temporaries: a generator's would be the peak of a small program.
    """
    at = sum(
        jax.lax.broadcasted_iota(jnp.float32, shape, axis) * (12.9898 + 3.1 * axis + seed)
        for axis in range(len(shape))
    )
    scale = 1.0 / math.sqrt(shape[-2] if len(shape) > 1 else shape[-1])
    return (jnp.sin(at * 78.233) * scale).astype(dtype)


def tokens(shape: tuple[int, ...], vocabulary: int) -> jax.Array:
    """Whole numbers below `vocabulary`."""
    at = sum(
        jax.lax.broadcasted_iota(jnp.uint32, shape, axis) * jnp.uint32(2654435761 + 2 * axis)
        for axis in range(len(shape))
    )
    return (at % jnp.uint32(vocabulary)).astype(jnp.int32)


def made(*makers: Callable[[], Any], shardings: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
    """The arguments that functions make, each made on the device by one jitted call."""
    placed = shardings or (None,) * len(makers)
    return tuple(
        jax.jit(maker, out_shardings=where)() if where is not None else jax.jit(maker)()
        for maker, where in zip(makers, placed, strict=True)
    )


def adam_state(parameters: Any) -> Any:
    """Parameters, first and second moments, and the number of steps."""
    zeros = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), parameters)
    again = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), parameters)
    return parameters, zeros, again, jnp.zeros((), jnp.int32)


def adam(state: Any, gradients: Any, rate: float = 1e-4) -> Any:
    """One step of Adam (Kingma and Ba 2015), in float32."""
    parameters, first, second, count = state
    count = count + 1
    gradients = jax.tree.map(lambda g: g.astype(jnp.float32), gradients)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
    one = 1.0 - 0.9 ** count.astype(jnp.float32)
    two = 1.0 - 0.999 ** count.astype(jnp.float32)
    parameters = jax.tree.map(
        lambda p, m, v: (
            p.astype(jnp.float32) - rate * (m / one) / (jnp.sqrt(v / two) + 1e-8)
        ).astype(p.dtype),
        parameters,
        first,
        second,
    )
    return parameters, first, second, count


def trained(loss: Callable[..., jax.Array], **jitted: Any) -> Any:
    """A jitted step of training: `step(state, *batch) -> (state, loss)`, its state donated."""

    def step(state: Any, *batch: Any) -> tuple[Any, jax.Array]:
        found, gradients = jax.value_and_grad(loss)(state[0], *batch)
        return adam(state, gradients), found

    return jax.jit(step, donate_argnums=0, **jitted)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean over all but the last axis, in float32."""
    logs = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.mean(jnp.take_along_axis(logs, labels[..., None], axis=-1))


def half(parameters: Any) -> Any:
    """Parameters in bfloat16, as mixed precision computes with them."""
    return jax.tree.map(
        lambda p: p.astype(jnp.bfloat16) if p.dtype == jnp.float32 else p, parameters
    )
