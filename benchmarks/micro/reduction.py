"""Softmax, norms, losses, sums, sorting: forward and backward by rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from harness import DTYPES, Point, randn
from torch.nn import functional

ROWS_COLS = (
    (1, 768), (128, 768), (1024, 768), (8192, 768), (32768, 768), (1024, 4096), (8192, 4096),
    (16, 8192), (4096, 8192), (12288, 128), (98304, 128), (98304, 1024), (24576, 2048),
    (8192, 8192), (512, 50257), (8192, 50257), (4096, 128256), (1, 128256), (64, 1000),
    (1000000, 32), (64, 10),
)  # fmt: skip
Build = Callable[[int, int, torch.dtype, str], Callable[[], object]]


def _plain(op: Callable[[torch.Tensor], object]) -> Build:
    def make(rows: int, cols: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x = randn(rows, cols, dtype=dtype, device=device)
        return lambda: op(x)

    return make


def _backward(op: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Build:
    """Backward of ``op(x, weight)`` alone (the graph is built once and kept)."""

    def make(rows: int, cols: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x = randn(rows, cols, dtype=dtype, device=device).requires_grad_()
        w = randn(cols, dtype=dtype, device=device).requires_grad_()
        out = op(x, w)
        grad = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, (x, w), grad, retain_graph=True, allow_unused=True)

    return make


def _weighted(op: Callable[[torch.Tensor, torch.Tensor], object]) -> Build:
    def make(rows: int, cols: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x = randn(rows, cols, dtype=dtype, device=device)
        w = randn(cols, dtype=dtype, device=device)
        return lambda: op(x, w)

    return make


def _loss(direction: str) -> Build:
    def make(rows: int, cols: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
        x = randn(rows, cols, dtype=dtype, device=device).requires_grad_(direction == "bwd")
        target = torch.randint(0, cols, (rows,), device=device)
        if direction == "fwd":
            return lambda: functional.cross_entropy(x, target)
        loss = functional.cross_entropy(x, target)
        return lambda: torch.autograd.grad(loss, x, retain_graph=True)

    return make


def _llama_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """RMS norm composed of separate operators, as in Hugging Face's Llama."""
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return w * wide.to(x.dtype)


def _layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None) -> torch.Tensor:
    return functional.layer_norm(x, (x.shape[-1],), w, w if b is None else b)


def _layer_norm_backward(
    rows: int, cols: int, dtype: torch.dtype, device: str
) -> Callable[[], object]:
    """Backward of layer norm with a weight and a bias of its own."""
    x = randn(rows, cols, dtype=dtype, device=device).requires_grad_()
    w, b = (randn(cols, dtype=dtype, device=device).requires_grad_() for _ in range(2))
    out = _layer_norm(x, w, b)
    grad = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (x, w, b), grad, retain_graph=True)


def _rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return functional.rms_norm(x, (x.shape[-1],), w)


OPS: dict[str, Build] = {
    "softmax": _plain(lambda x: torch.softmax(x, -1)),
    "softmax_bwd": _backward(lambda x, _w: torch.softmax(x, -1)),
    "log_softmax": _plain(lambda x: torch.log_softmax(x, -1)),
    "log_softmax_bwd": _backward(lambda x, _w: torch.log_softmax(x, -1)),
    "layer_norm": _weighted(_layer_norm),
    "layer_norm_bwd": _layer_norm_backward,
    "rms_norm": _weighted(_rms_norm),
    "rms_norm_bwd": _backward(_rms_norm),
    "llama_rms_norm": _weighted(_llama_norm),
    "sum_all": _plain(torch.sum),
    "sum_last": _plain(lambda x: x.sum(-1)),
    "sum_first": _plain(lambda x: x.sum(0)),
    "mean_last": _plain(lambda x: x.mean(-1)),
    "cross_entropy": _loss("fwd"),
    "cross_entropy_bwd": _loss("bwd"),
    "argmax": _plain(lambda x: x.argmax(-1)),
    "max_last": _plain(lambda x: x.amax(-1)),
    "norm": _plain(torch.linalg.vector_norm),
    "cumsum": _plain(lambda x: x.cumsum(-1)),
}
SLOW: dict[str, Build] = {
    "topk50": _plain(lambda x: x.topk(min(50, x.shape[-1]), -1)),
    "sort": _plain(lambda x: x.sort(-1)),
    "softmax_dim0": _plain(lambda x: torch.softmax(x, 0)),
    "multinomial": _plain(lambda x: torch.multinomial(x.abs().float(), 1)),
    "isfinite_all": _plain(lambda x: torch.isfinite(x).all()),
    "logsumexp": _plain(lambda x: x.logsumexp(-1)),
    "mse_loss": _weighted(lambda x, w: functional.mse_loss(x, w.expand_as(x))),
    "bce_logits": _weighted(
        lambda x, w: functional.binary_cross_entropy_with_logits(x, w.expand_as(x))
    ),
    "sum_squares": _plain(lambda x: (x * x).sum()),
    "any": _plain(lambda x: x.any()),
    "max_with_index": _plain(lambda x: x.max(-1)),
    "l2_normalize": _plain(lambda x: functional.normalize(x, dim=-1)),
    "var_last": _plain(lambda x: x.var(-1)),
}
IMAGES = (
    (16, 64, 112), (16, 64, 56), (16, 256, 56), (16, 512, 28), (16, 1024, 14), (16, 2048, 7),
    (64, 256, 56), (64, 2048, 7), (1, 64, 112), (4, 320, 64), (4, 640, 32), (4, 1280, 16),
)  # fmt: skip


def _image(
    op: str, n: int, c: int, hw: int, dtype: str, layout: str, direction: str
) -> Callable[[str], Callable[[], object]]:
    def make(device: str) -> Callable[[], object]:
        x = randn(n, c, hw, hw, dtype=DTYPES[dtype], device=device)
        if layout == "nhwc":
            x = x.contiguous(memory_format=torch.channels_last)
        x.requires_grad_(direction == "bwd")
        # batch norm keeps fp32 weights even with bf16 inputs (as under autocast)
        wide = torch.float32 if op == "batch_norm" else DTYPES[dtype]
        w, b = (randn(c, dtype=wide, device=device).requires_grad_(direction == "bwd")
                for _ in range(2))  # fmt: skip
        mean, var = torch.zeros(c, device=device), torch.ones(c, device=device)

        def forward() -> torch.Tensor:
            if op == "batch_norm":
                return functional.batch_norm(x, mean, var, w, b, training=True)
            if op == "batch_norm_eval":
                return functional.batch_norm(x, mean.to(x.dtype), var.to(x.dtype), w, b)
            if op == "group_norm":
                return functional.group_norm(x, 32, w, b)
            if op == "max_pool":
                return functional.max_pool2d(x, 3, 2, 1)
            if op == "avg_pool_global":
                return functional.adaptive_avg_pool2d(x, 1)
            return functional.interpolate(x, scale_factor=2.0, mode="nearest")

        if direction == "fwd":
            return forward
        out = forward()
        grad = torch.randn_like(out)
        inputs = (x, w, b)
        return lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True, allow_unused=True)

    return make


def _images() -> Iterator[Point]:
    ops = {"batch_norm": 1, "group_norm": 2, "max_pool": 3, "avg_pool_global": 3, "upsample": 3,
           "batch_norm_eval": 4}  # fmt: skip
    for op, step in ops.items():
        for n, c, hw in IMAGES[::step]:
            for layout in ("nchw", "nhwc"):
                for dtype in ("fp32", "bf16"):
                    for direction in ("fwd", "bwd"):
                        if op == "batch_norm_eval" and direction == "bwd":
                            continue
                        params = {"op": op, "dtype": dtype, "layout": layout, "n": n, "c": c,
                                  "hw": hw, "dir": direction}  # fmt: skip
                        make = _image(op, n, c, hw, dtype, layout, direction)
                        yield Point("image_reduction", params, make, reps=5)


def points(quick: bool) -> Iterator[Point]:
    """All reduction points; ``quick`` keeps three shapes of each operator."""
    shapes = ROWS_COLS[:9:4] if quick else ROWS_COLS
    for table, step in ((OPS, 1), (SLOW, 3)):
        for op, build in table.items():
            for rows, cols in shapes[::step]:
                for dtype in ("fp32", "bf16"):

                    def make(
                        device: str, r: int = rows, c: int = cols, d: str = dtype, f: Build = build
                    ) -> Callable[[], object]:
                        return f(r, c, DTYPES[d], device)

                    params = {"op": op, "dtype": dtype, "rows": rows, "cols": cols}
                    yield Point("reduction", params, make, reps=6)
    if not quick:
        yield from _images()
