"""Scaled dot-product attention: forward, backward, decode; the backend is PyTorch's choice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from held_out.points import Params, backward, size, switches, tensor

HEAD_DIMS = (32, 40, 64, 64, 72, 80, 96, 128, 128, 128, 192, 256)
MOST_FLOPS = {"fp32": 1e11}
MOST_SCORES = 1.5e9
"""Elements of the score matrix, where the unfused path may be taken."""


def draw(rng: random.Random) -> Iterator[Params]:
    """About 150 points."""
    for direction, count in (("fwd", 55), ("bwd", 50)):
        for _ in range(count):
            yield _full(rng, direction)
    for _ in range(40):
        yield _decode(rng)


def _full(rng: random.Random, direction: str) -> Params:
    while True:
        dtype = rng.choice(("bf16", "bf16", "bf16", "fp16", "fp32"))
        h = rng.choice((6, 8, 12, 14, 16, 20, 24, 28, 40))
        shared = rng.choice((1, 1, 1, 2, 4)) if dtype != "fp32" else 1
        sq = size(rng, 48, 12000, rng.choice((1, 1, 64, 128)))
        across = rng.random() < 0.15
        skv = size(rng, 48, 8000) if across else sq
        mask = rng.choice(("none",) * 4 + ("bool", "float"))
        causal = not across and mask == "none" and rng.random() < 0.6
        b, d = size(rng, 1, 48), rng.choice(HEAD_DIMS)
        work = 4.0 * b * h * sq * skv * d * (0.5 if causal else 1)
        work *= 2.5 if direction == "bwd" else 1
        small = mask == "none" and dtype != "fp32" or b * h * sq * skv < MOST_SCORES
        if h % shared == 0 and work < MOST_FLOPS.get(dtype, 1.5e12) and small:
            break
    return {
        "dir": direction,
        "dtype": dtype,
        "b": b,
        "h": h,
        "hkv": h // shared,
        "sq": sq,
        "skv": skv,
        "d": d,
        "causal": causal,
        "mask": mask,
        "dropout": rng.choice((0.0,) * 5 + (0.1,)) if mask == "none" else 0.0,
        "layout": rng.choice(("bshd", "bshd", "bhsd")),
    }


def _decode(rng: random.Random) -> Params:
    while True:
        h = rng.choice((8, 16, 24, 28, 32, 40))
        shared = rng.choice((1, 2, 4, 4, 8))
        b, skv = size(rng, 1, 128), size(rng, 100, 20000)
        d = rng.choice((64, 96, 128, 128, 256))
        if h % shared == 0 and b * (h // shared) * skv * d < 1e9:
            break
    return {
        "dir": "decode",
        "dtype": rng.choice(("bf16", "bf16", "fp16")),
        "b": b,
        "h": h,
        "hkv": h // shared,
        "sq": 1,
        "skv": skv,
        "d": d,
        "causal": False,
        "mask": rng.choice(("none", "none", "none", "bool")),
        "dropout": 0.0,
        "layout": "bhsd",
    }


def build(params: Params) -> Callable[[], object]:
    """One attention; see `held_out.points.Point.build`."""
    from torch.nn.functional import scaled_dot_product_attention

    p = params
    switches()
    q, k, v = (
        _heads(p, h, s) for h, s in ((p["h"], p["sq"]), (p["hkv"], p["skv"]), (p["hkv"], p["skv"]))
    )
    mask = None
    if p["mask"] == "bool":
        mask = tensor("fp32", p["b"], 1, p["sq"], p["skv"]) > -1.5
    elif p["mask"] == "float":
        mask = tensor(p["dtype"], p["b"], 1, p["sq"], p["skv"])
    more = {"enable_gqa": True} if p["hkv"] != p["h"] else {}
    for t in (q, k, v):
        t.requires_grad_(p["dir"] == "bwd")

    def forward() -> object:
        return scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=p["dropout"], is_causal=p["causal"], **more
        )

    return backward(forward(), (q, k, v)) if p["dir"] == "bwd" else forward


def _heads(p: Params, heads: int, length: int) -> object:
    if p["layout"] == "bhsd":
        return tensor(p["dtype"], p["b"], heads, length, p["d"])
    return tensor(p["dtype"], p["b"], length, heads, p["d"]).transpose(1, 2)
