"""Convolutions near those of other people's models, and random ones, for the learned residual.

`python -m benchmarks.harvest.near OUT.jsonl.gz`. Which kernel cuDNN takes follows no rule that is
known, so it takes many convolutions to learn what they cost. Each one that a family of models makes
that may be seen is varied: another batch, other channels, picture, dtype or layout, the rest as it
is. A call stays of its family, so that a family is in one fold with what was drawn from it. Random
ones are the points of `validation/held_out` of other seeds, a family a seed. The file is one that
`replay` reads.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "validation")]

from benchmarks.harvest.calls import Call, Plain, read  # noqa: E402
from benchmarks.harvest.drawn import tensor  # noqa: E402
from benchmarks.harvest.judge import CALLS, held_out  # noqa: E402
from held_out.points import calibration_points  # noqa: E402

EACH, EACH_DRAWN = 9, 1
"""Variants of a model's call, and of one that was drawn itself."""

SEEDS = range(21, 51)
"""Of the random ones; those of `residual_calls.DRAWN` are timed elsewhere."""

MOST_ELEMENTS, MOST_FLOPS = 2**27, 3e11

BATCHES = (0.125, 0.25, 0.5, 2, 4, 8)
WIDTHS = (0.25, 0.5, 0.75, 1.25, 1.5, 2)
SIDES = (0.5, 0.57, 0.75, 0.86, 1.14, 1.5, 2)
DTYPES = ("float32", "bfloat16", "float16")

Params = dict[str, Plain]


def varied(rng: random.Random, call: Call) -> Params | None:
    """A call near another one; None where there is none of its sizes.

    Args:
        rng: that draws.
        call: `convolution` or `convolution_backward` of tensors that lie densely.
    """
    backward = call.params["op"].startswith("convolution_backward")
    args = list(call.params["args"])
    x, w = args[1:3] if backward else args[:2]
    stride, pads, dilation, transposed, more, groups = args[4:10] if backward else args[3:9]
    dims = len(w["shape"]) - 2
    stride, pads, dilation, more = (
        a if len(a) == dims else a * dims for a in (stride, pads, dilation, more)
    )
    last = any(t["stride"][1] == 1 and min(t["shape"][1:]) > 1 for t in (x, w))
    n, c, *sides = x["shape"]
    out, each, *taps = w["shape"]
    n = _scaled(rng, n, BATCHES)
    groups, c, out, each = _channels(rng, groups, c, out, each, transposed)
    if rng.random() < 0.5:
        factor = rng.choice(SIDES)
        sides = [max(1, round(s * factor)) for s in sides]
    dtype = rng.choice(DTYPES) if rng.random() < 0.3 else x["dtype"]
    tf32 = dtype != "float32" or rng.random() < 0.6
    last = (not last if rng.random() < 0.25 else last) and len(sides) > 1
    every = zip(sides, taps, stride, pads, dilation, more, strict=True)
    out_sides = [ends(*one, transposed) for one in every]
    channels = each * groups if transposed else out
    results, weights = n * channels * math.prod(out_sides), out * each * math.prod(taps)
    places = math.prod(sides if transposed else out_sides)
    if min(out_sides) < 1 or max(n * c * math.prod(sides), results, weights) > MOST_ELEMENTS:
        return None
    if 2.0 * n * places * weights > MOST_FLOPS:
        return None
    data = tensor(dtype, n, c, *sides, last=last), tensor(dtype, out, each, *taps, last=last)
    first = (tensor(dtype, n, channels, *out_sides, last=last), *data) if backward else data
    bias = args[3] if backward else args[2]
    if bias is not None:
        bias = [channels] if backward else tensor(dtype, channels)
    rest = [stride, pads, dilation, transposed, more, groups]
    if backward:
        rest.append(_asked(rng, args[10]))
    return {**call.params, "args": [*first, bias, *rest], "tf32_cudnn": tf32}


def _asked(rng: random.Random, mask: Sequence[bool]) -> list[bool]:
    """Which gradients: those of the call, or one of two alone, for their times differ."""
    if not (mask[0] and mask[1]):
        return list(mask)
    return rng.choice((list(mask), [True, False, False], [False, True, False]))


def _scaled(rng: random.Random, value: int, factors: Sequence[float], whole: int = 1) -> int:
    """Half of the time as it is, else times one of the factors, a multiple of `whole`."""
    if rng.random() < 0.5:
        return value
    return max(1, round(value * rng.choice(factors) / whole)) * whole


def _channels(
    rng: random.Random, groups: int, c: int, out: int, each: int, transposed: bool
) -> tuple[int, int, int, int]:
    """(groups, channels of the input, the filter's first and second size).

    A filter a channel stays one; the picture's three channels stay three.
    """
    whole = 8 if rng.random() < 0.8 else 1
    if groups > 1:
        own, others = c // groups, (each if transposed else out // groups)
        groups = _scaled(rng, groups, WIDTHS, whole if groups % whole == 0 else 1)
        if own > 1:
            wide = own == others
            own = _scaled(rng, own, WIDTHS)
            others = own if wide else others
        c = groups * own
        return groups, c, *((c, others) if transposed else (groups * others, own))
    result = each if transposed else out
    c = c if c <= 4 else _scaled(rng, c, WIDTHS, whole)
    result = _scaled(rng, result, WIDTHS, whole if result >= 8 else 1)
    return 1, c, *((c, result) if transposed else (result, c))


def random_one(p: Params) -> Params:
    """The call that a random point makes, without a search among cuDNN's kernels."""
    dims, turned, last, groups = p["dims"], p["form"] == "transposed", p["last"], p["groups"]
    dtype = {"bf16": "bfloat16", "fp16": "float16"}.get(p["dtype"], "float32")
    k, step, d = p["kernel"], p["stride"], p["dilation"]
    pad = d * (k // 2)
    end = ends(p["side"], k, step, pad, d, 0, turned)
    filters = (p["cin"], p["cout"] // groups) if turned else (p["cout"], p["cin"] // groups)
    x = tensor(dtype, p["n"], p["cin"], *[p["side"]] * dims, last=last)
    w = tensor(dtype, *filters, *[k] * dims, last=last)
    rest = [[n] * dims for n in (step, pad, d)] + [turned, [0] * dims, groups]
    switches = {"kwargs": {}, "tf32": False, "tf32_cudnn": p["dtype"] != "fp32"}
    if p["dir"] == "fwd":
        bias = tensor(dtype, p["cout"]) if p["bias"] else None
        return {"op": "convolution.default", "args": [x, w, bias, *rest], **switches}
    y = tensor(dtype, p["n"], p["cout"], *[end] * dims, last=last)
    weights = p["dir"] != "dgrad"
    rest.append([p["dir"] != "wgrad", weights, weights and p["bias"]])
    sizes = [p["cout"]] if p["bias"] else None
    return {"op": "convolution_backward.default", "args": [y, x, w, sizes, *rest], **switches}


def ends(size: int, taps: int, step: int, pad: int, dilation: int, more: int, turned: bool) -> int:
    """Size of the result along a dimension; `turned`: of a transposed convolution."""
    span = dilation * (taps - 1)
    if turned:
        return (size - 1) * step - 2 * pad + span + more + 1
    return (size + 2 * pad - span - 1) // step + 1


def rows(calls: dict[str, Call], families: dict[str, set[str]]) -> Iterator[dict[str, Any]]:
    """Lines of the file, one a family."""
    of_family: dict[str, list[Call]] = defaultdict(list)
    for mark, call in sorted(calls.items()):
        of = families[mark]
        if call.kind == "convolution" and not held_out(of) and len(call.params["args"]) > 8:
            of_family[min(of)].append(call)
    for family, of in sorted(of_family.items()):
        rng = random.Random(family)
        each = EACH_DRAWN if family.startswith("drawn") else EACH
        made = (varied(rng, call) for call in of for _ in range(each))
        found = {Call("convolution", p).mark: p for p in made if p is not None}
        new = [params for mark, params in found.items() if mark not in calls]
        yield {"family": family, "task": "near", "calls": new}
    for seed in SEEDS:
        points = calibration_points(["convolution"], [seed])
        drawn = [random_one(point.params) for point in points]
        yield {"family": f"random {seed}", "task": "random", "calls": drawn}


def main() -> int:
    """Write all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    with gzip.open(args.out, "wt") as out:
        for row in rows(*read(CALLS)):
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
