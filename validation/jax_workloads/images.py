"""Convolutions: a residual network that is trained, and one step of a diffusion model."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from parts import Program, adam_state, cross_entropy, half, made, tokens, trained, values


def _kernel(size: int, inner: int, outer: int, seed: int) -> jax.Array:
    return values((size * size, inner, outer), seed=seed).reshape(size, size, inner, outer)


def _conv(x: jax.Array, kernel: jax.Array, stride: int = 1) -> jax.Array:
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _batch_norm(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, axis=(0, 1, 2))
    spread = jnp.mean(wide * wide, axis=(0, 1, 2)) - mean * mean
    return ((wide - mean) * jax.lax.rsqrt(spread + 1e-5) * scale + shift).astype(x.dtype)


_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))


def _residual_parameters() -> Any:
    def unit(inner: int, outer: int, seed: int) -> dict[str, Any]:
        found = {
            "conv1": _kernel(3, inner, outer, seed), "conv2": _kernel(3, outer, outer, seed + 1),
            "norm1": (jnp.ones((outer,)), jnp.zeros((outer,))),
            "norm2": (jnp.ones((outer,)), jnp.zeros((outer,))),
        }  # fmt: skip
        if inner != outer:
            found["skip"] = _kernel(1, inner, outer, seed + 2)
        return found

    units, inner = [], 64
    for outer, _ in _STAGES:
        for _ in range(2):
            units.append(unit(inner, outer, len(units)))
            inner = outer
    return {
        "stem": _kernel(7, 3, 64, 9), "norm": (jnp.ones((64,)), jnp.zeros((64,))),
        "units": units, "head": values((512, 1000)),
    }  # fmt: skip


def _residual(weights: Any, x: jax.Array) -> jax.Array:
    x = jax.nn.relu(_batch_norm(_conv(x, weights["stem"], 2), *weights["norm"]))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for index, unit in enumerate(weights["units"]):
        stride = _STAGES[index // 2][1] if index % 2 == 0 else 1
        short = _conv(x, unit["skip"], stride) if "skip" in unit else x
        y = jax.nn.relu(_batch_norm(_conv(x, unit["conv1"], stride), *unit["norm1"]))
        x = jax.nn.relu(short + _batch_norm(_conv(y, unit["conv2"]), *unit["norm2"]))
    return jnp.mean(x, axis=(1, 2)) @ weights["head"]


def residual() -> Program:
    """ResNet-18's training in mixed precision, 64 images."""

    def loss(weights: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return cross_entropy(_residual(half(weights), x), y)

    return trained(loss), made(
        lambda: adam_state(_residual_parameters()),
        lambda: values((64, 224, 224, 3), jnp.bfloat16),
        lambda: tokens((64,), 1000),
    )


def _group_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    n, h, w, c = x.shape
    wide = x.astype(jnp.float32).reshape(n, h * w, 32, c // 32)
    mean = jnp.mean(wide, axis=(1, 3), keepdims=True)
    spread = jnp.var(wide, axis=(1, 3), keepdims=True)
    return ((wide - mean) * jax.lax.rsqrt(spread + 1e-5)).reshape(x.shape).astype(x.dtype) * scale


def _denoiser_parameters(widths: tuple[int, ...]) -> Any:
    down, up, inner = [], [], widths[0]
    for at, width in enumerate(widths):
        down.append(
            {
                "conv1": _kernel(3, inner, width, at), "conv2": _kernel(3, width, width, at + 7),
                "skip": _kernel(1, inner, width, at), "norm1": jnp.ones((inner,)),
                "norm2": jnp.ones((width,)), "time": values((256, width), seed=at),
            }
        )  # fmt: skip
        inner = width
    for at, width in enumerate(reversed(widths)):
        up.append(
            {
                "conv1": _kernel(3, inner + width, width, at),
                "conv2": _kernel(3, width, width, at + 3),
                "skip": _kernel(1, inner + width, width, at), "norm1": jnp.ones((inner + width,)),
                "norm2": jnp.ones((width,)), "time": values((256, width), seed=at),
            }
        )  # fmt: skip
        inner = width
    last = widths[-1]
    return {
        "first": _kernel(3, 4, widths[0], 1), "last": _kernel(3, widths[0], 4, 2),
        "down": down, "up": up, "qkv": values((last, 3 * last)), "out": values((last, last)),
    }  # fmt: skip


def _residual_unit(w: Any, x: jax.Array, moment: jax.Array) -> jax.Array:
    y = _conv(jax.nn.silu(_group_norm(x, w["norm1"])), w["conv1"])
    y = y + (moment @ w["time"])[:, None, None]
    return _conv(x, w["skip"]) + _conv(jax.nn.silu(_group_norm(y, w["norm2"])), w["conv2"])


def _attend(w: Any, x: jax.Array) -> jax.Array:
    n, h, wide, c = x.shape
    flat = x.reshape(n, h * wide, c)
    q, k, v = (part.reshape(n, h * wide, c // 64, 64) for part in jnp.split(flat @ w["qkv"], 3, -1))
    mixed = jax.nn.dot_product_attention(q, k, v)
    return x + (mixed.reshape(n, h * wide, c) @ w["out"]).reshape(x.shape)


def _noise(w: Any, x: jax.Array, moment: jax.Array) -> jax.Array:
    x = _conv(x, w["first"])
    kept = []
    for at, unit in enumerate(w["down"]):
        x = _residual_unit(unit, x, moment)
        kept.append(x)
        if at < len(w["down"]) - 1:
            n, h, wide, c = x.shape
            x = jnp.mean(x.reshape(n, h // 2, 2, wide // 2, 2, c), axis=(2, 4))
    x = _attend(w, x)
    for at, unit in enumerate(w["up"]):
        x = _residual_unit(unit, jnp.concatenate([x, kept.pop()], axis=-1), moment)
        if at < len(w["up"]) - 1:
            x = jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)
    return _conv(jax.nn.silu(x), w["last"])


def diffusion() -> Program:
    """One guided denoising step of a U-Net on latents: both halves of the guidance in one batch."""

    def step(x: jax.Array, weights: Any, moment: jax.Array) -> jax.Array:
        both = _noise(weights, jnp.concatenate([x, x]), jnp.concatenate([moment, moment * 0]))
        told, free = jnp.split(both, 2)
        return x - 0.02 * (free + 7.5 * (told - free))

    def weights() -> Any:
        found = _denoiser_parameters((256, 512, 768))
        return jax.tree.map(lambda p: p.astype(jnp.bfloat16), found)

    return jax.jit(step, donate_argnums=0), made(
        lambda: values((8, 64, 64, 4), jnp.bfloat16),
        weights,
        lambda: values((8, 256), jnp.bfloat16),
    )
