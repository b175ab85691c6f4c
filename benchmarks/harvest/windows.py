"""Calls whose libraries borrow memory or take kernels of their own: `benchmarks.harvest.cases`.

Weights' gradients and float32 passes that cuDNN may transform (Fourier, Winograd), filters of one
tap over volumes and with strides, first layers, grids sampled at places, Fourier transforms of odd
sizes and volumes, complex values moved. Drawn at random, seeded.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from benchmarks.harvest.drawn import Params, _call, between, convolution, tensor

MOST = 2**25
"""Elements of a tensor."""


def weight_sums() -> Iterator[Params]:
    """Weights' gradients, channels first: where cuDNN transforms, sums directly, or multiplies."""
    rng = random.Random("weight sums")
    for _ in range(420):
        taps = rng.choice((3, 3, 3, 3, 3, 5, 7, 2))
        x = (between(rng, 1, 512), between(rng, 3, 512), between(rng, 5, 128))
        x, wide = (*x, x[2]), between(rng, 3, 512, rng.choice((1, 8)))
        dtype = rng.choice(("tf32", "tf32", "tf32", "float32", "bfloat16", "float16"))
        stride = rng.choice((1, 1, 1, 1, 2))
        if x[0] * max(x[1], wide) * x[2] ** 2 < MOST:
            yield from _pass(rng, 2, x, wide, (taps, taps), stride, False, dtype)


def float_passes() -> Iterator[Params]:
    """Forward passes and data gradients in float32, with and without TF32, and a few of half."""
    rng = random.Random("float passes")
    for _ in range(330):
        taps = rng.choice((3, 3, 3, 3, 5, 7, 9))
        x = (between(rng, 1, 256), between(rng, 3, 512), between(rng, 5, 96))
        x, wide = (*x, x[2]), between(rng, 3, 512, rng.choice((1, 8)))
        dtype = rng.choice(("tf32", "float32", "float32", "bfloat16"))
        last = rng.random() < 0.25
        which, stride = rng.choice((0, 1)), rng.choice((1, 1, 1, 1, 2))
        if x[0] * max(x[1], wide) * x[2] ** 2 < MOST:
            yield from _pass(rng, which, x, wide, (taps, taps), stride, last, dtype)


def one_taps() -> Iterator[Params]:
    """Filters of one tap: over volumes, and with strides over images."""
    rng = random.Random("one taps")
    for _ in range(45):
        side, deep = between(rng, 8, 64), between(rng, 4, 64)
        x = (between(rng, 1, 8), between(rng, 4, 256), deep, side, side)
        wide, dtype = between(rng, 1, 256), rng.choice(("tf32", "float32", "bfloat16"))
        for which in range(3):
            if x[0] * max(x[1], wide) * deep * side**2 < MOST:
                yield from _pass(rng, which, x, wide, (1, 1, 1), 1, False, dtype)
    for _ in range(45):
        side = between(rng, 7, 112)
        x = (between(rng, 1, 128), between(rng, 16, 1024, 8), side, side)
        wide = rng.choice((x[1], 2 * x[1]))
        dtype, last = rng.choice(("tf32", "float32", "bfloat16")), rng.random() < 0.4
        for which in range(3):
            if x[0] * wide * side**2 < MOST:
                yield from _pass(rng, which, x, wide, (1, 1), 2, last, dtype)


def first_layers() -> Iterator[Params]:
    """Images of 1 to 5 channels, all three passes."""
    rng = random.Random("first layers")
    for _ in range(75):
        taps, stride = rng.choice(((3, 1), (3, 1), (3, 2), (5, 1), (7, 2), (8, 4), (4, 2)))
        side = between(rng, 28, 256)
        x = (between(rng, 1, 256), rng.randint(1, 5), side, side)
        wide, dtype = between(rng, 8, 128, 8), rng.choice(("tf32", "float32", "bfloat16"))
        last = rng.random() < 0.3
        for which in (0, 2, 1)[: rng.choice((2, 2, 3))]:
            if x[0] * wide * (side // stride) ** 2 < MOST:
                yield from _pass(rng, which, x, wide, (taps, taps), stride, last, dtype)


def _pass(
    rng: random.Random,
    which: int,
    x: tuple[int, ...],
    wide: int,
    taps: tuple[int, ...],
    stride: int,
    last: bool,
    dtype: str,
) -> Iterator[Params]:
    """One pass of a convolution: 0 forward, 1 the data's gradient, 2 the weights'."""
    stored = "float32" if dtype == "tf32" else dtype
    passes = list(convolution(rng, x, wide, taps, stride=stride, last=last, dtype=stored))
    if passes:
        yield {**passes[which], "tf32_cudnn": dtype != "float32"}


def sampled_grids() -> Iterator[Params]:
    """`grid_sample` at places of their own, of planes and volumes, and its gradients."""
    rng = random.Random("sampled grids")
    for _ in range(40):
        volume = rng.random() < 0.25
        side = between(rng, 8, 48 if volume else 192)
        sides = (side,) * (3 if volume else 2)
        n, c = between(rng, 1, 16 if volume else 128), between(rng, 1, 64)
        many = (between(rng, 16, 16384), between(rng, 1, 16))
        places = (*((1,) * (len(sides) - 2)), *many)
        x, grid = tensor("float32", n, c, *sides), tensor("float32", n, *places, len(sides))
        grid["places"] = "anywhere"
        y = tensor("float32", n, c, *places)
        if max(math.prod(t["shape"]) for t in (x, y)) > MOST:
            continue
        name, how = f"grid_sampler_{len(sides)}d", (0, rng.choice((0, 0, 1)), False)
        yield _call(f"{name}.default", x, grid, *how)
        yield _call(f"{name}_backward.default", y, x, grid, *how, [True, True])


def waves() -> Iterator[Params]:
    """Fourier transforms of one to three dimensions, of sizes with small and large factors."""
    rng = random.Random("waves")
    for _ in range(70):
        dims = rng.choice((1, 2, 2, 3, 3))
        most = {1: 8192, 2: 512, 3: 96}[dims]
        sides = [between(rng, 8, most) for _ in range(dims)]
        batch = max(1, min(between(rng, 1, 4096), MOST // math.prod(sides) // 2))
        along, half = list(range(1, dims + 1)), [*sides[:-1], sides[-1] // 2 + 1]
        which = rng.choice(("r2c", "c2c", "c2r"))
        if which == "r2c":
            yield _call("_fft_r2c.default", tensor("float32", batch, *sides), along, 0, True)
        elif which == "c2c":
            yield _call("_fft_c2c.default", tensor("complex64", batch, *sides), along, 0, True)
        else:
            x = tensor("complex64", batch, *half)
            yield _call("_fft_c2r.default", x, along, 2, sides[-1])


def complex_moves() -> Iterator[Params]:
    """Complex values copied, sliced, added and multiplied, dense and not."""
    rng = random.Random("complex moves")
    for _ in range(70):
        n, c, side = between(rng, 1, 64), between(rng, 8, 256), between(rng, 8, 96)
        sizes = (n, c, side, side // 2 + 1)
        if math.prod(sizes) > MOST:
            continue
        whole = tensor("complex64", *sizes)
        part = {**whole, "shape": [n, c, max(side // 2, 1), max(side // 4, 1)]}
        dense = tensor("complex64", *part["shape"])
        order = {**whole, "shape": [n, side, c, sizes[3]]}
        order["stride"] = [whole["stride"][d] for d in (0, 2, 1, 3)]
        form = {"memory_format": {"torch": "contiguous_format"}}
        yield rng.choice(
            (
                _call("clone.default", part, **form),
                _call("clone.default", order, **form),
                _call("copy_.default", part, dense),
                _call("add.Tensor", part, part),
                _call("add.Tensor", whole, whole),
                _call("mul.Tensor", part, dense),
                _call("mul.Tensor", whole, whole),
                _call("mul.Scalar", part, 0.5),
                _call("zeros_like.default", whole),
                _call("_to_copy.default", whole, dtype={"torch": "complex128"}),
                _call("view_as_real_copy.default", part),
                _call("cat.default", [part, dense], 1),
            )
        )


FAMILIES = (weight_sums, float_passes, one_taps, first_layers, sampled_grids, waves, complex_moves)
