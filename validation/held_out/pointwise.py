"""Elementwise operators: dtypes, broadcasts, strides, in place, random numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from held_out.points import Params, dtype_of, size, switches, tensor

UNARY = (
    "relu",
    "gelu",
    "gelu_tanh",
    "silu",
    "sigmoid",
    "tanh",
    "exp",
    "rsqrt",
    "neg",
    "clamp",
    "pow2",
    "dropout",
)
BINARY = ("add", "mul", "sub", "div", "maximum", "lt", "lerp", "gelu_backward", "silu_backward")
TERNARY = ("addcmul", "where", "masked_fill")
FORMS = ("same", "same", "same", "row", "column", "scalar", "transposed", "sliced", "mixed")


def draw(rng: random.Random) -> Iterator[Params]:
    """About 110 points."""
    for op, count in ((UNARY, 44), (BINARY, 52), (TERNARY, 18)):
        for at in range(count):
            rows, columns = size(rng, 1, 40000), size(rng, 8, 20000, rng.choice((1, 8, 64)))
            while rows * columns > 3e8:
                rows, columns = max(1, rows // 3), max(8, columns // 2)
            form = (
                rng.choice(FORMS)
                if op is BINARY
                else rng.choice(("same", "same", "transposed", "sliced"))
            )
            yield {
                "op": op[at % len(op)],
                "dtype": rng.choice(("fp32", "fp32", "bf16", "bf16", "fp16")),
                "rows": rows,
                "columns": columns,
                "form": form,
                "inplace": op is not TERNARY and form == "same" and rng.random() < 0.3,
            }


def build(params: Params) -> Callable[[], object]:
    """One operator; see `held_out.points.Point.build`."""
    import torch
    from torch.nn import functional as F

    p = params
    switches()
    x = _plane(p, p["dtype"], p["form"])
    op = p["op"]
    into = x if p["inplace"] else None
    unary: dict[str, Callable[[], object]] = {
        "relu": lambda: x.relu_() if p["inplace"] else x.relu(),
        "gelu": lambda: F.gelu(x),
        "gelu_tanh": lambda: F.gelu(x, approximate="tanh"),
        "silu": lambda: F.silu(x, inplace=p["inplace"]),
        "sigmoid": lambda: torch.sigmoid(x, out=into),
        "tanh": lambda: torch.tanh(x, out=into),
        "exp": lambda: torch.exp(x),
        "rsqrt": lambda: torch.rsqrt(x),
        "neg": lambda: torch.neg(x, out=into),
        "clamp": lambda: x.clamp(-1, 1),
        "pow2": lambda: x.pow(2),
        "dropout": lambda: F.dropout(x, 0.1, training=True),
    }
    return unary[op] if op in unary else _of_more(p, x)


def _of_more(p: Params, x: object) -> Callable[[], object]:
    import torch

    y = _other(p)
    op, into = p["op"], x if p["inplace"] and p["op"] not in ("lt", "lerp") else None
    if op in ("add", "mul", "sub", "div", "maximum"):
        if op == "maximum" and not isinstance(y, torch.Tensor):
            y = torch.full((), 0.5, device="cuda", dtype=x.dtype)  # type: ignore[attr-defined]
        return lambda: getattr(torch, op)(x, y, out=into)
    if op == "gelu_backward":
        y = _plane(p, p["dtype"], "same")
        return lambda: torch.ops.aten.gelu_backward(x, y)
    if op == "silu_backward":
        y = _plane(p, p["dtype"], "same")
        return lambda: torch.ops.aten.silu_backward(x, y)
    if op == "lt":
        return lambda: torch.lt(x, y)
    if op == "lerp":
        z = _plane(p, p["dtype"], "same")
        return lambda: torch.lerp(x, z, 0.1)
    mask, z = _plane(p, "bool", "same"), _plane(p, p["dtype"], "same")
    if op == "where":
        return lambda: torch.where(mask, x, z)
    if op == "masked_fill":
        return lambda: x.masked_fill(mask, 0.0)  # type: ignore[attr-defined]
    return lambda: torch.addcmul(x, z, z, value=0.5)


def _plane(p: Params, word: str, form: str) -> object:
    rows, columns = p["rows"], p["columns"]
    if form == "transposed":
        return tensor(word, columns, rows).t()
    if form == "sliced":
        return tensor(word, rows, columns + 24)[:, 8 : 8 + columns]
    return tensor(word, rows, columns)


def _other(p: Params) -> object:
    form = p["form"]
    if form == "row":
        return tensor(p["dtype"], p["columns"])
    if form == "column":
        return tensor(p["dtype"], p["rows"], 1)
    if form == "scalar":
        return 0.5
    if form == "mixed":
        other = "fp32" if dtype_of(p["dtype"]).itemsize == 2 else "bf16"
        return _plane(p, p["dtype"] if p["inplace"] else other, "same")
    return _plane(p, p["dtype"], "same")
