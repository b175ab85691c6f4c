"""Matrix products: dtypes, layouts, skinny, tiny, batched, grouped, with a bias."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from held_out.points import Params, aligned, size, switches, tensor

WIDTHS = (640, 896, 1152, 1280, 1536, 1920, 2304, 2560, 3584, 4864, 5120, 6912, 8960, 9216, 13696)
"""Widths of published models, none of them in the calibration's own list."""
DTYPES = ("bf16",) * 6 + ("fp16",) * 3 + ("tf32",) * 3 + ("fp32",) * 3
MOST_FLOPS = {"fp32": 1.5e11, "tf32": 1e12}
MOST_ELEMENTS = 2e8


def draw(rng: random.Random) -> Iterator[Params]:
    """About 190 points."""
    for regime, count in (("any", 40), ("skinny", 45), ("tiny", 20), ("model", 35)):
        for _ in range(count):
            yield _product(rng, regime, rng.choice(DTYPES))
    for _ in range(24):
        yield _batched(rng)
    for _ in range(12):
        m, n, k = size(rng, 24, 8192), size(rng, 64, 8192, 8), size(rng, 64, 8192, 8)
        yield {"op": "int_mm", "dtype": "int8", "m": m, "n": n, "k": k, "layout": "nt"}
    for _ in range(20):
        m = size(rng, 16, 16384, 16) if rng.random() < 0.7 else size(rng, 1, 64)
        n, k = size(rng, 128, 16384, 16), size(rng, 128, 16384, 16)
        yield {"op": "scaled_mm", "dtype": "fp8", "m": m, "n": n, "k": k, "layout": "nt"}
    for _ in range(12):
        yield {
            "op": "grouped_mm",
            "dtype": "bf16",
            "groups": rng.choice((4, 8, 16, 60, 64, 128)),
            "m": size(rng, 256, 16384, 8),
            "n": size(rng, 256, 6144, 64),
            "k": size(rng, 256, 6144, 64),
            "seed": rng.randrange(10**6),
        }


def _product(rng: random.Random, regime: str, dtype: str) -> Params:
    while True:
        if regime == "any":
            m, n, k = (aligned(rng, 64, 20000) for _ in range(3))
        elif regime == "skinny":
            m, n, k = size(rng, 1, 64), aligned(rng, 256, 20000), aligned(rng, 256, 20000)
            if rng.random() < 0.3:
                m, n = n, m
        elif regime == "tiny":
            m, n, k = (size(rng, 2, 300) for _ in range(3))
        else:
            m, n, k = size(rng, 64, 20000), rng.choice(WIDTHS), rng.choice(WIDTHS)
        fits = 2.0 * m * n * k < MOST_FLOPS.get(dtype, 3e12)
        if fits and max(m * n, n * k, m * k) < MOST_ELEMENTS:
            break
    op = rng.choice(("mm", "mm", "addmm"))
    layout = rng.choice(("nt", "nt", "nn", "tn"))
    return {"op": op, "dtype": dtype, "m": m, "n": n, "k": k, "layout": layout, "regime": regime}


def _batched(rng: random.Random) -> Params:
    while True:
        dtype = rng.choice(("bf16", "bf16", "fp16", "tf32", "fp32"))
        b = size(rng, 2, 512)
        m, n = aligned(rng, 4, 2048), aligned(rng, 4, 2048)
        k = rng.choice((32, 64, 80, 96, 128)) if rng.random() < 0.5 else aligned(rng, 16, 2048)
        fits = 2.0 * b * m * n * k < MOST_FLOPS.get(dtype, 1e12)
        if fits and b * (m * n + n * k) < MOST_ELEMENTS:
            break
    layout = rng.choice(("nt", "nn", "tn"))
    op = rng.choice(("bmm", "bmm", "baddbmm"))
    return {"op": op, "dtype": dtype, "b": b, "m": m, "n": n, "k": k, "layout": layout}


def build(params: Params) -> Callable[[], object]:
    """One product; see `held_out.points.Point.build`."""
    import torch

    p = params
    switches(tf32=p["dtype"] == "tf32")
    op = p["op"]
    if op == "grouped_mm":
        return _grouped(p)
    lead = (p["b"],) if "b" in p else ()
    a, b = _operands(p, lead)
    if op == "scaled_mm":
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    if op == "int_mm":
        return lambda: torch._int_mm(a, b)
    if op == "addmm":
        bias = tensor(p["dtype"], p["n"])
        return lambda: torch.addmm(bias, a, b)
    if op == "baddbmm":
        add = tensor(p["dtype"], *lead, p["m"], p["n"])
        return lambda: torch.baddbmm(add, a, b)
    return lambda: a @ b


def _operands(p: Params, lead: tuple[int, ...]) -> tuple[object, object]:
    first, second = p["layout"]
    m, n, k = p["m"], p["n"], p["k"]
    a = tensor(p["dtype"], *lead, k, m).mT if first == "t" else tensor(p["dtype"], *lead, m, k)
    b = tensor(p["dtype"], *lead, n, k).mT if second == "t" else tensor(p["dtype"], *lead, k, n)
    return a, b


def _grouped(p: Params) -> Callable[[], object]:
    """Rows spread over the experts unevenly, as a router spreads them."""
    import torch

    rng = random.Random(p["seed"])
    cuts = sorted(rng.randrange(p["m"] + 1) for _ in range(p["groups"] - 1))
    ends = torch.tensor([*cuts, p["m"]], dtype=torch.int32, device="cuda")
    a = tensor(p["dtype"], p["m"], p["k"])
    b = tensor(p["dtype"], p["groups"], p["k"], p["n"])
    return lambda: torch._grouped_mm(a, b, offs=ends)
