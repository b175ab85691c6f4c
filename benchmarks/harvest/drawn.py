"""Calls of operators that few models make, drawn at random.

`python -m benchmarks.harvest.drawn OUT.jsonl.gz`. Sizes are log-uniform, seeded. Each kind of call is drawn in ten parts, whose names are what the
split by families goes by: calls of a part are seen or held out together. The file is one that
`replay` and `judge` read.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PARTS, EACH = 10, 12
MOST_ELEMENTS = 2**27

Params = dict[str, Any]
HALF = ("float32", "float32", "bfloat16", "float16")


def tensor(dtype: str, *shape: int, last: bool = False) -> Params:
    """A dense tensor; `last`: channels innermost."""
    order = (0, *range(2, len(shape)), 1) if last else range(len(shape))
    strides, step = [0] * len(shape), 1
    for d in reversed(list(order)):
        strides[d], step = step, step * shape[d]
    return {"dtype": dtype, "shape": list(shape), "stride": strides}


def between(rng: random.Random, low: int, high: int, whole: int = 1) -> int:
    """Log-uniform, a multiple of `whole`."""
    drawn = math.exp(rng.uniform(math.log(low), math.log(high)))
    return max(round(drawn / whole), 1) * whole


def _call(op: str, *args: Any, tf32: bool = True, **kwargs: Any) -> Params:
    return {"op": op, "args": list(args), "kwargs": kwargs, "tf32": False, "tf32_cudnn": tf32}


def convolution(
    rng: random.Random,
    x: tuple[int, ...],
    out: int,
    taps: tuple[int, ...],
    groups: int = 1,
    dilation: int = 1,
    stride: int = 1,
    last: bool = False,
    dtype: str = "",
) -> Iterator[Params]:
    """Forward pass and both gradients of one convolution that keeps its sizes."""
    dtype = dtype or rng.choice(HALF)
    pads = [dilation * (t - 1) // 2 for t in taps]
    sizes = [
        (n + 2 * p - dilation * (t - 1) - 1) // stride + 1
        for n, p, t in zip(x[2:], pads, taps, strict=True)
    ]
    if min(sizes) < 1 or max(math.prod(x), x[0] * out * math.prod(sizes)) > MOST_ELEMENTS:
        return
    tf32 = dtype != "float32" or rng.random() < 0.6
    shape = [stride] * len(taps), pads, [dilation] * len(taps), False, [0] * len(taps), groups
    a, w = tensor(dtype, *x, last=last), tensor(dtype, out, x[1] // groups, *taps, last=last)
    grad = tensor(dtype, x[0], out, *sizes, last=last)
    yield _call("convolution.default", a, w, None, *shape, tf32=tf32)
    for mask in ([True, False, False], [False, True, False]):
        yield _call("convolution_backward.default", grad, a, w, None, *shape, mask, tf32=tf32)


def grouped(rng: random.Random) -> Iterator[Params]:
    """Groups of 2 to 64 channels, 3 or 5 wide."""
    each = between(rng, 2, 64, 2)
    groups = between(rng, 2, 64)
    n, side, taps = between(rng, 1, 64), between(rng, 7, 112), rng.choice((3, 3, 5))
    wide = rng.choice((1, 1, 1, 2)) * each * groups
    yield from convolution(
        rng, (n, each * groups, side, side), wide, (taps, taps), groups, last=rng.random() < 0.3
    )


def depthwise(rng: random.Random) -> Iterator[Params]:
    """A filter a channel, 3 to 31 wide."""
    channels, taps = between(rng, 16, 2048, 8), rng.choice((3, 5, 7, 9, 13, 31))
    n, side = between(rng, 1, 128), between(rng, 7, 112)
    stride = rng.choice((1, 1, 2))
    last = rng.random() < 0.3
    x = (n, channels, side, side)
    yield from convolution(rng, x, channels, (taps, taps), channels, stride=stride, last=last)


def dilated_lines(rng: random.Random) -> Iterator[Params]:
    """One dimension, dilated, as vocoders and sound codes have them."""
    x = (between(rng, 1, 32), between(rng, 16, 768, 8), between(rng, 64, 32768))
    wide = rng.choice((x[1], between(rng, 16, 768, 8)))
    taps = rng.choice((3, 3, 7, 11))
    yield from convolution(rng, x, wide, (taps,), dilation=rng.choice((1, 1, 3, 5, 9, 27)))


def wide_filters(rng: random.Random) -> Iterator[Params]:
    """Filters as large as the picture: gradients of gradients."""
    side = between(rng, 5, 64)
    taps = side - rng.choice((0, 2, 2))
    x = (between(rng, 1, 64), between(rng, 1, 128), side, side)
    dtype = rng.choice(("float32", "float32", "bfloat16"))
    tf32 = dtype != "float32" or rng.random() < 0.6
    pad = rng.choice((0, 1))
    left = side + 2 * pad - taps + 1
    out = between(rng, 1, 128)
    w = tensor(dtype, out, x[1], taps, taps)
    a = tensor(dtype, *x)
    if left < 1 or math.prod(w["shape"]) > MOST_ELEMENTS:
        return
    shape = [1, 1], [pad, pad], [1, 1], False, [0, 0], 1
    yield _call("convolution.default", a, w, None, *shape, tf32=tf32)
    turned = tensor(dtype, x[1], x[0], side, side)
    grad = tensor(dtype, out, x[0], taps, taps)
    if x[0] <= 64:
        yield _call("convolution.default", turned, grad, None, *shape, tf32=tf32)


def plain(rng: random.Random) -> Iterator[Params]:
    """Ordinary two-dimensional ones, 1 to 7 wide."""
    x = (between(rng, 1, 64), between(rng, 3, 1024), between(rng, 7, 128))
    taps, stride = rng.choice((1, 1, 3, 3, 3, 5, 7)), rng.choice((1, 1, 1, 2))
    last, wide = rng.random() < 0.35, between(rng, 8, 1024, rng.choice((1, 8, 8)))
    yield from convolution(rng, (*x, x[2]), wide, (taps, taps), stride=stride, last=last)


def volumes(rng: random.Random) -> Iterator[Params]:
    """Three dimensions."""
    side, deep = between(rng, 8, 96), between(rng, 4, 64)
    x = (between(rng, 1, 8), between(rng, 1, 256), deep, side, side)
    yield from convolution(rng, x, between(rng, 8, 256, 8), (3,) * 3, stride=rng.choice((1, 1, 2)))


def pieces(rng: random.Random) -> Iterator[Params]:
    """`unfold` and its gradient."""
    n, c, side = between(rng, 1, 128), between(rng, 3, 256), between(rng, 8, 128)
    k, dtype = rng.choice((2, 3, 3, 4, 7)), rng.choice(HALF)
    if n * c * side * side * k * k > MOST_ELEMENTS:
        return
    args = [k, k], [1, 1], [(k - 1) // 2] * 2, [1, 1]
    out = side + 2 * ((k - 1) // 2) - k + 1
    yield _call("im2col.default", tensor(dtype, n, c, side, side), *args)
    yield _call("col2im.default", tensor(dtype, n, c * k * k, out * out), [side, side], *args)


def pools(rng: random.Random) -> Iterator[Params]:
    """Gradients of pools, both layouts."""
    n, c, side = between(rng, 1, 64), between(rng, 8, 1024, 8), between(rng, 8, 112)
    k, dtype, last = rng.choice((2, 3, 3, 5)), rng.choice(HALF), rng.random() < 0.3
    s = rng.choice((1, 2))
    pad = (k - 1) // 2
    out = (side + 2 * pad - k) // s + 1
    x, y = (tensor(dtype, n, c, m, m, last=last) for m in (side, out))
    where = tensor("int64", n, c, out, out, last=last)
    size = [k, k], [s, s], [pad, pad]
    yield _call("max_pool2d_with_indices.default", x, *size)
    yield _call("max_pool2d_with_indices_backward.default", y, x, *size, [1, 1], False, where)
    yield _call("avg_pool2d_backward.default", y, x, *size, False, True, None)


def norms(rng: random.Random) -> Iterator[Params]:
    """Batch norm by PyTorch's own kernels, and its gradient."""
    n, c, side = between(rng, 2, 64), between(rng, 8, 1024, 8), between(rng, 4, 112)
    dtype, last = rng.choice(HALF), rng.random() < 0.4
    x = tensor(dtype, n, c, side, side, last=last)
    f = [tensor("float32", c) for _ in range(6)]
    yield _call("native_batch_norm.default", x, f[0], f[1], f[2], f[3], True, 0.1, 1e-5)
    args = (dict(x), x, f[0], f[2], f[3], f[4], f[5], True, 1e-5, [True, True, True])
    yield _call("native_batch_norm_backward.default", *args)


def few_columns(rng: random.Random) -> Iterator[Params]:
    """Gradients of gathers from tables of 1 to 64 values a row."""
    rows, width = between(rng, 1000, 4_000_000), rng.choice((1, 2, 2, 4, 8, 16, 64))
    picks = between(rng, 4096, 4_000_000)
    dtype = rng.choice(HALF)
    grad, at = tensor(dtype, picks, width), tensor("int64", picks)
    yield _call("embedding_dense_backward.default", grad, at, rows, -1, False)
    yield _call("index_put.default", tensor(dtype, rows, width), [at], grad, True)


def log_sums(rng: random.Random) -> Iterator[Params]:
    """`logsumexp` and cumulative products."""
    rows, width = between(rng, 1, 65536), between(rng, 2, 65536)
    if rows * width > MOST_ELEMENTS:
        return
    x = tensor(rng.choice(HALF), rows, width)
    dim = rng.choice((0, 1, 1))
    yield _call("logsumexp.default", x, [dim])
    yield _call("cumprod.default", x, dim)


def few_positions(rng: random.Random) -> Iterator[Params]:
    """Weight gradients over few positions: groups of 1 to 16 channels, and none."""
    for _ in range(3):
        each, groups = rng.choice((1, 1, 2, 4, 8, 16)), between(rng, 4, 512, 4)
        if rng.random() < 0.3:
            each, groups = each * groups, 1
        channels = each * groups
        n, side, taps = between(rng, 1, 128), between(rng, 1, 28), rng.choice((3, 3, 5, 7))
        dtype, last = rng.choice(("float32", *HALF)), rng.random() < 0.6
        if max(n * channels * side * side, channels * each * taps * taps) > MOST_ELEMENTS // 4:
            continue
        x, stride = (n, channels, side, side), rng.choice((1, 1, 2))
        made = convolution(rng, x, channels, (taps, taps), groups, 1, stride, last, dtype)
        yield from (call for call in made if call["args"][-1] == [False, True, False])


def along_axes(rng: random.Random) -> Iterator[Params]:
    """Largest values, their places and running sums along any axis of three."""
    sizes = [between(rng, 1, 4096) for _ in range(3)]
    if math.prod(sizes) > MOST_ELEMENTS // 2:
        return
    x, dim = tensor(rng.choice(HALF), *sizes), rng.randrange(3)
    yield _call("argmax.default", x, dim, False)
    yield _call("max.dim", x, dim, False)
    yield _call("amax.default", x, [dim], False)
    yield _call("cumsum.default", x, dim)


def meeting(rng: random.Random) -> Iterator[Params]:
    """Sums by index in which few to many indices meet: nodes of graphs, voxels, histograms."""
    rows, width = between(rng, 1, 262_144), between(rng, 1, 1024)
    picks = max(1, min(round(rows * math.exp(rng.uniform(-1, 8))), 4_000_000))
    if max(rows, picks) * width > MOST_ELEMENTS // 2:
        return
    dtype = rng.choice(HALF)
    x, values = tensor(dtype, rows, width), tensor(dtype, picks, width)
    line = tensor("int64", picks)
    spread = {**tensor("int64", picks, width), "stride": [1, 0]}
    yield _call("scatter_add.default", x, 0, rng.choice((spread, tensor(*_whole(values)))), values)
    yield _call("index_add.default", x, 0, line, values)
    if rng.random() < 0.4:
        yield _call("scatter_reduce.two", x, 0, spread, values, "amax")


def _whole(like: Params) -> tuple[Any, ...]:
    return "int64", *like["shape"]


def lists(rng: random.Random) -> Iterator[Params]:
    """Optimizers' passes over 1 to 64 tensors, most of them small."""
    dtype = rng.choice(("float32", "float32", "bfloat16"))
    shapes = [
        [between(rng, 1, 4096) for _ in range(rng.choice((1, 1, 2)))]
        for _ in range(between(rng, 1, 64))
    ]
    if sum(map(math.prod, shapes)) > MOST_ELEMENTS // 2:
        return
    p, g, m, v = ([tensor(dtype, *s) for s in shapes] for _ in range(4))
    steps = [tensor("float32") for _ in shapes]
    fused = {"weight_decay": 0.01, "maximize": False}
    adam = {**fused, "lr": 1e-3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "amsgrad": False}
    yield _call("_fused_adamw_.default", p, g, m, v, [], steps, **adam)
    sgd = {**fused, "lr": 0.1, "momentum": 0.9, "dampening": 0.0, "nesterov": False}
    yield _call("_fused_sgd_.default", p, g, m, **sgd, is_first_step=False)
    yield _call("_foreach_div_.ScalarList", p, [0.5] * len(p))
    yield _call("_foreach_add_.List", p, g, alpha=-0.1)
    yield _call("_foreach_lerp_.Scalar", m, g, 0.1)


def pooled(rng: random.Random) -> Iterator[Params]:
    """Averages over windows, and stacks."""
    n, c, side = between(rng, 1, 64), between(rng, 3, 1024), between(rng, 4, 112)
    k, dtype, last = rng.choice((2, 3, 3, 5, 7)), rng.choice(HALF), rng.random() < 0.4
    x = tensor(dtype, n, c, side, side, last=last)
    if side >= k and n * c * side * side <= MOST_ELEMENTS:
        pad = rng.choice((0, (k - 1) // 2))
        yield _call("avg_pool2d.default", x, [k, k], [rng.choice((1, 2, k))] * 2, [pad, pad])
    flat = tensor(dtype, between(rng, 1, 4096), between(rng, 1, 1024))
    many = min(between(rng, 2, 32), MOST_ELEMENTS // 2 // math.prod(flat["shape"]))
    if many > 1:
        yield _call("stack.default", [dict(flat) for _ in range(many)], rng.randrange(3))


DRAWS: tuple[Callable[[random.Random], Iterator[Params]], ...] = (
    grouped,
    depthwise,
    dilated_lines,
    wide_filters,
    plain,
    volumes,
    pieces,
    pools,
    norms,
    few_columns,
    log_sums,
    few_positions,
    along_axes,
    meeting,
    lists,
    pooled,
)


def rows() -> Iterator[dict[str, Any]]:
    """Lines of the file, one a part."""
    for draw in DRAWS:
        for part in range(PARTS):
            rng = random.Random(f"{draw.__name__} {part}")
            calls = [call for _ in range(EACH) for call in draw(rng)]
            yield {"family": f"drawn {draw.__name__} {part}", "task": "drawn", "calls": calls}


def main() -> int:
    """Write all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    with gzip.open(args.out, "wt") as out:
        for row in rows():
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
