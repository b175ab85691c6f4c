"""The calls whose host time is measured one by one: operators, factories, modules, casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gpuscope.measurement.bench.host_timing import HostTimer

Calls = dict[str, Callable[[], object]]


def tensors(device: str, grad: bool) -> dict[str, Any]:
    """Tiny tensors for `operators`, which require gradients or do not."""

    def make(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(shape, device=device, dtype=dtype).requires_grad_(grad)

    return {
        "x": make(8, 64),
        "y": make(8, 64),
        "w": make(64, 64),
        "b": make(64),
        "v": make(64),
        "x3": make(2, 8, 64),
        "q": make(1, 2, 16, 64, dtype=torch.bfloat16),
        "q32": make(1, 2, 16, 64),
        "one": make(1, 2, 1, 64, dtype=torch.bfloat16),
        "past": make(1, 2, 48, 64, dtype=torch.bfloat16),
        "img": make(1, 8, 8, 8),
        "k": make(8, 8, 3, 3),
        "g": make(8),
        "table": make(100, 64),
        "ids": torch.randint(0, 64, (8,), device=device),
        "mask": torch.rand(8, 64, device=device) > 0.5,
        "h": make(8, 64, dtype=torch.bfloat16),
        "run_mean": torch.zeros(8, device=device),
        "run_var": torch.ones(8, device=device),
        "b3": make(2, 64, 8),
    }


def operators(t: dict[str, Any]) -> Calls:
    """Name -> call, for the operators of ordinary models, on `tensors`."""
    x, y, w, b, q, img, k, g = (t[n] for n in ("x", "y", "w", "b", "q", "img", "k", "g"))
    x3, ids, mask, table, h = (t[n] for n in ("x3", "ids", "mask", "table", "h"))
    f = functional
    return {
        "add": lambda: x + y,
        "add_scalar": lambda: x + 1.0,
        "sub": lambda: x - y,
        "mul": lambda: x * y,
        "mul_scalar": lambda: x * 2.0,
        "div": lambda: x / y,
        "neg": lambda: -x,
        "pow": lambda: x.pow(2),
        "exp": lambda: x.exp(),
        "rsqrt": lambda: x.rsqrt(),
        "cos": lambda: x.cos(),
        "eq_scalar": lambda: x == 0,
        "abs": lambda: x.abs(),
        "clamp": lambda: x.clamp(-3, 3),
        "log": lambda: x.log(),
        "sqrt": lambda: x.sqrt(),
        "ge": lambda: x >= 0,
        "floor_divide": lambda: ids // 2,
        "histc": lambda: torch.histc(x, 16, 0.0, 1.0),
        "index_put": lambda: y.index_put((ids % 8,), x),
        "scatter": lambda: y.scatter(0, ids[None] % 8, 1.0),
        "embedding_bag": lambda: f.embedding_bag(ids[None], table),
        "where": lambda: torch.where(mask, x, y),
        "masked_fill": lambda: x.masked_fill(mask, 0.0),
        "mm": lambda: torch.mm(x, w),
        "matmul2d": lambda: x @ w,
        "matmul3d2d": lambda: x3 @ w,
        "matmul3d": lambda: x3 @ t["b3"],
        "bmm": lambda: torch.bmm(x3, t["b3"]),
        "addmm": lambda: torch.addmm(b, x, w),
        "linear": lambda: f.linear(x, w, b),
        "linear_nobias": lambda: f.linear(x, w),
        "linear3d": lambda: f.linear(x3, w, b),
        "einsum": lambda: torch.einsum("bsd,de->bse", x3, w),
        "layer_norm": lambda: f.layer_norm(x, (64,), b, b),
        "rms_norm": lambda: f.rms_norm(x, (64,), b),
        "batch_norm_train": lambda: f.batch_norm(
            img, t["run_mean"], t["run_var"], g, g, training=True
        ),
        "group_norm": lambda: f.group_norm(img, 4, g, g),
        "softmax": lambda: x.softmax(-1),
        "log_softmax": lambda: x.log_softmax(-1),
        "gelu": lambda: f.gelu(x),
        "silu": lambda: f.silu(x),
        "relu": lambda: f.relu(x),
        "tanh": lambda: x.tanh(),
        "sigmoid": lambda: x.sigmoid(),
        "dropout": lambda: f.dropout(x, 0.1),
        "sum": lambda: x.sum(),
        "mean_last": lambda: x.mean(-1, keepdim=True),
        "amax": lambda: x.amax(-1),
        "argmax": lambda: x.argmax(-1),
        "topk": lambda: x.topk(4),
        "cumsum": lambda: x.cumsum(-1),
        "sort": lambda: x.sort(-1),
        "norm": lambda: torch.linalg.vector_norm(x),
        "cat": lambda: torch.cat((x, y)),
        "stack": lambda: torch.stack((x, y)),
        "clone": lambda: x.clone(),
        "to_bf16": lambda: x.to(torch.bfloat16),
        "embedding": lambda: f.embedding(ids, table),
        "index": lambda: x3[:, ids % 8],
        "index_tensor": lambda: table[ids],
        "gather": lambda: x.gather(0, ids[None] % 8),
        "conv2d": lambda: f.conv2d(img, k, padding=1),
        "max_pool2d": lambda: f.max_pool2d(img, 2),
        "adaptive_avg_pool2d": lambda: f.adaptive_avg_pool2d(img, 1),
        "interpolate": lambda: f.interpolate(img, scale_factor=2.0),
        "cross_entropy": lambda: f.cross_entropy(x, ids),
        "mse_loss": lambda: f.mse_loss(x, y),
        "bf16_add": lambda: h + h,
        "bf16_mm": lambda: h @ h.t(),
        "sdpa_causal": lambda: f.scaled_dot_product_attention(q, q, q, is_causal=True),
        "sdpa": lambda: f.scaled_dot_product_attention(q, q, q),
        "sdpa_fp32": lambda: f.scaled_dot_product_attention(t["q32"], t["q32"], t["q32"]),
        "sdpa_decode": lambda: f.scaled_dot_product_attention(t["one"], t["past"], t["past"]),
        **views(t),
    }


def views(t: dict[str, Any]) -> Calls:
    """Name -> call, for operators that move no data (most of them)."""
    x, x3, w, b = t["x"], t["x3"], t["w"], t["b"]
    return {
        "view": lambda: x.view(4, 128),
        "reshape_view": lambda: x.reshape(4, 128),
        "reshape_copy": lambda: x.t().reshape(-1),
        "transpose": lambda: x.transpose(0, 1),
        "permute": lambda: x3.permute(0, 2, 1),
        "contiguous_noop": lambda: x.contiguous(),
        "contiguous_copy": lambda: x.t().contiguous(),
        "unsqueeze": lambda: x.unsqueeze(0),
        "expand": lambda: b.expand(8, 64),
        "slice": lambda: x[:, :32],
        "select": lambda: x[0],
        "chunk3": lambda: w.chunk(4, -1),
        "split": lambda: x.split(32, -1),
        "detach": lambda: x.detach(),
        "to_same": lambda: x.to(torch.float32),
    }


ROUNDS = 3
"""A host is slow for seconds at a time (neighbours, its clock): each call is measured in several
rounds over all calls, so that a slow while does not fall on some of them alone."""


def measure_operators(timer: HostTimer) -> None:
    """Every operator, plain and recording autograd, in rounds."""
    calls = {}
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            calls[grad] = operators(tensors(timer.device, grad))
    for _ in range(ROUNDS):
        for grad, named in calls.items():
            with torch.set_grad_enabled(grad):
                for name, call in named.items():
                    variant = "grad" if grad else "no_grad"
                    timer.calls("op", name, variant, call, batches=-(-timer.batches // ROUNDS))


def measure_factories(timer: HostTimer) -> None:
    """Making tensors, in-place operators, queries."""
    d, plain = timer.device, torch.randn(8, 64, device=timer.device)
    calls: Calls = {
        "empty": lambda: torch.empty(8, 64, device=d),
        "zeros": lambda: torch.zeros(8, 64, device=d),
        "ones": lambda: torch.ones(8, 64, device=d),
        "full": lambda: torch.full((8, 64), 2.0, device=d),
        "arange": lambda: torch.arange(64, device=d),
        "randn": lambda: torch.randn(8, 64, device=d),
        "zeros_like": lambda: torch.zeros_like(plain),
        "empty_like": lambda: torch.empty_like(plain),
        "add_": lambda: plain.add_(1.0),
        "mul_": lambda: plain.mul_(1.0),
        "copy_": lambda: plain.copy_(plain * 1),
        "fill_": lambda: plain.fill_(0.5),
        "zero_": lambda: plain.zero_(),
        "randint": lambda: torch.randint(0, 9, (8,), device=d),
        "tensor_from_list": lambda: torch.tensor([1.0, 2.0], device=d),
        "tensor_cpu": lambda: torch.tensor(1.0),
        "shape": lambda: plain.shape,
        "size0": lambda: plain.size(0),
        "is_contiguous": lambda: plain.is_contiguous(),
        "triu": lambda: plain.triu(),
        "randperm": lambda: torch.randperm(64, device=d),
        "numel": lambda: plain.numel(),
        "dtype": lambda: plain.dtype,
    }
    with torch.no_grad():
        for name, call in calls.items():
            timer.calls("op", name, "no_grad", call)


class _Empty(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def measure_modules(timer: HostTimer) -> None:
    """What calling a module costs beside its operators."""
    d = timer.device
    x, x3 = torch.randn(8, 64, device=d), torch.randn(2, 8, 64, device=d)
    empty, linear, norm = _Empty(), nn.Linear(64, 64, device=d), nn.LayerNorm(64, device=d)
    hooked = _Empty()
    hooked.register_forward_hook(lambda *_: None)
    layer = nn.TransformerEncoderLayer(64, 2, 128, device=d, batch_first=True)
    chain = nn.Sequential(*[_Empty() for _ in range(10)])
    attention = nn.MultiheadAttention(64, 2, device=d, batch_first=True)
    calls: Calls = {
        "python_lambda": lambda: None,
        "empty_module": lambda: empty(x),
        "empty_module_hooked": lambda: hooked(x),
        "sequential10_empty": lambda: chain(x),
        "nn_linear": lambda: linear(x),
        "f_linear": lambda: functional.linear(x, linear.weight, linear.bias),
        "encoder_layer": lambda: layer(x3),
        "nn_layer_norm": lambda: norm(x),
        "multihead_attention": lambda: attention(x3, x3, x3, need_weights=False),
    }
    for name, call in calls.items():
        timer.calls("module", name, "grad", call)
        with torch.no_grad():
            timer.calls("module", name, "no_grad", call)
    timer.calls("module", "no_grad_context", "enter_exit", _enter_no_grad)


def _enter_no_grad() -> None:
    with torch.no_grad():
        pass


def measure_autocast(timer: HostTimer) -> None:
    """Calls under autocast, with cached and fresh casts of the weights."""
    kind = torch.device(timer.device).type
    t = tensors(timer.device, grad=True)
    x, w, b, h = t["x"], t["w"], t["b"], t["h"]

    def linear() -> torch.Tensor:
        return functional.linear(x, w, b)

    with torch.autocast(kind, torch.bfloat16):
        timer.calls("autocast", "linear", "cached_weights", linear)
        timer.calls("autocast", "add", "no_cast", lambda: x + x)
        timer.calls(
            "autocast", "layer_norm", "to_fp32", lambda: functional.layer_norm(h, (64,), b, b)
        )
        timer.calls("autocast", "softmax", "to_fp32", lambda: h.softmax(-1))
    with torch.autocast(kind, torch.bfloat16, cache_enabled=False):
        timer.calls("autocast", "linear", "uncached", linear)
    timer.calls("autocast", "linear", "off", linear)

    def context() -> None:
        with torch.autocast(kind, torch.bfloat16):
            pass

    timer.calls("autocast", "enter_exit", "empty", context)
