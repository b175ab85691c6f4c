"""What is no product: rows in bandwidth's bounds, embedding tables, a recurrent loop."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from parts import Program, adam_state, made, tokens, trained, values


def rows() -> Program:
    """Norm, GELU and softmax of a large matrix's rows, and sums of its columns."""

    def step(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        wide = x.astype(jnp.float32)
        normed = (wide - jnp.mean(wide, -1, keepdims=True)) * jax.lax.rsqrt(
            jnp.var(wide, -1, keepdims=True) + 1e-5
        )
        active = jax.nn.gelu(normed)
        return jax.nn.softmax(active, axis=-1).astype(x.dtype), jnp.sum(active, axis=0)

    return jax.jit(step), made(lambda: values((16384, 8192), jnp.bfloat16))


def tables() -> Program:
    """Training of 16 embedding tables under a small network (as recommenders have)."""

    def loss(weights: Any, ids: jax.Array, wanted: jax.Array) -> jax.Array:
        found = weights["tables"][jnp.arange(16)[:, None], ids]  # [16, batch, 64]
        x = jnp.moveaxis(found, 0, 1).reshape(ids.shape[1], 16 * 64)
        x = jax.nn.relu(x @ weights["first"])
        out = (x @ weights["second"])[:, 0]
        return jnp.mean(jnp.logaddexp(0.0, -wanted * out))

    return trained(loss), made(
        lambda: adam_state(
            {
                "tables": values((16, 100_000, 64)),
                "first": values((1024, 512)),
                "second": values((512, 1)),
            }
        ),
        lambda: tokens((16, 16384), 100_000),
        lambda: values((16384,)),
    )


def recurrent() -> Program:
    """A GRU over 128 steps, forward and backward: a loop of small kernels."""

    def loss(weights: Any, xs: jax.Array) -> jax.Array:
        def one(state: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            reset, keep, fresh = jnp.split(x @ weights["in"], 3, -1)
            r, z, n = jnp.split(state @ weights["hidden"], 3, -1)
            gate = jax.nn.sigmoid(keep + z)
            new = jnp.tanh(fresh + jax.nn.sigmoid(reset + r) * n)
            return gate * state + (1 - gate) * new, None

        last, _ = jax.lax.scan(one, jnp.zeros((xs.shape[1], 1024), xs.dtype), xs)
        return jnp.mean(last**2)

    return trained(loss), made(
        lambda: adam_state({"in": values((1024, 3072)), "hidden": values((1024, 3072), seed=1)}),
        lambda: values((128, 64, 1024)),
    )
