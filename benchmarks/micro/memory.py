"""Memory facts: library workspaces, reserve spaces, saved tensors, the caching allocator's rules.

Runs in a process of its own, because first calls allocate what later calls reuse.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

COLUMNS = ("group", "name", "allocated_bytes", "peak_extra_bytes", "reserved_bytes", "detail")


class _Facts:
    def __init__(self) -> None:
        self.rows: list[list[object]] = []

    def call(self, group: str, name: str, call: Callable[[], object], detail: str = "") -> object:
        """Bytes that stay allocated after ``call`` (its result included) and its extra peak."""
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        try:
            result = call()
        except Exception as error:
            self.rows.append([group, name, "", "", "", f"{type(error).__name__}: {error}"[:200]])
            return None
        torch.cuda.synchronize()
        stays = torch.cuda.memory_allocated() - before
        peak = torch.cuda.max_memory_allocated() - before
        self.rows.append([group, name, stays, peak, torch.cuda.memory_reserved(), detail])
        return result


def _blas(facts: _Facts) -> None:
    for dtype in (torch.bfloat16, torch.float32):
        a = torch.randn(1024, 1024, device="cuda", dtype=dtype)
        bias = torch.randn(1024, device="cuda", dtype=dtype)
        kept = [facts.call("cublas", f"first_mm_{dtype}", lambda a=a: torch.mm(a, a))]
        kept.append(facts.call("cublas", f"second_mm_{dtype}", lambda a=a: torch.mm(a, a)))
        kept.append(
            facts.call(
                "cublas", f"linear_bias_{dtype}", lambda a=a, b=bias: functional.linear(a, a, b)
            )
        )
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        facts.call("cublas", "first_mm_on_second_stream", lambda: torch.mm(a, a))
    x = torch.randn(1024, 1024, device="cuda", requires_grad=True)
    facts.call("cublas", "backward_thread_mm", lambda: (x @ x).sum().backward())  # type: ignore[no-untyped-call]


CONVOLUTIONS = (
    (16, 64, 56, 64, 3, 1, 1),
    (16, 256, 56, 64, 1, 1, 1),
    (64, 3, 224, 64, 7, 2, 1),
    (16, 512, 7, 512, 3, 1, 1),
    (4, 320, 64, 320, 3, 1, 1),
    (16, 96, 56, 96, 7, 1, 96),
)
"""(batch, channels in, height = width, channels out, kernel, stride, groups)."""


def _convolution(
    facts: _Facts, shape: tuple[int, ...], dtype: torch.dtype, layout: torch.memory_format
) -> None:
    n, c, hw, k, r, stride, groups = shape
    x = torch.randn(n, c, hw, hw, device="cuda", dtype=dtype).contiguous(memory_format=layout)
    w = torch.randn(k, c // groups, r, r, device="cuda", dtype=dtype)
    w = w.contiguous(memory_format=layout)
    rest = ([stride] * 2, [r // 2] * 2, [1, 1], False, [0, 0], groups)
    label = f"n{n}c{c}hw{hw}k{k}r{r}s{stride}g{groups}:{dtype}:{layout}"
    out = facts.call("conv", f"fwd:{label}", lambda: torch.ops.aten.convolution(x, w, None, *rest))
    if not isinstance(out, torch.Tensor):
        return
    grad = torch.randn_like(out)
    backward = torch.ops.aten.convolution_backward
    sizes = f"x={x.nbytes},w={w.nbytes},y={out.nbytes}"
    for part, mask in (("dgrad", [True, False, False]), ("wgrad", [False, True, False])):
        facts.call(
            "conv", f"{part}:{label}", lambda m=mask: backward(grad, x, w, None, *rest, m), sizes
        )


def _convolutions(facts: _Facts) -> None:
    for shape in CONVOLUTIONS:
        for dtype in (torch.float32, torch.bfloat16):
            for layout in (torch.contiguous_format, torch.channels_last):
                _convolution(facts, shape, dtype, layout)


def _recurrence(
    facts: _Facts, kind: str, hidden: int, layers: int, seq: int, batch: int, dtype: torch.dtype
) -> None:
    net = getattr(torch.nn, kind)(hidden, hidden, layers).to(device="cuda", dtype=dtype)
    x = torch.randn(seq, batch, hidden, device="cuda", dtype=dtype, requires_grad=True)
    label = f"{kind}:h{hidden}l{layers}s{seq}b{batch}:{dtype}"
    weights = sum(p.nbytes for p in net.parameters())
    out: Any = facts.call("rnn", f"fwd:{label}", lambda: net(x), f"y={x.nbytes},weights={weights}")
    facts.call(
        "rnn", f"bwd:{label}", lambda: torch.autograd.grad(out[0].sum(), (x, *net.parameters()))
    )


def _recurrent(facts: _Facts) -> None:
    for kind in ("LSTM", "GRU"):
        for shape in (
            (1024, 1, 128, 64),
            (1024, 2, 128, 64),
            (256, 1, 35, 16),
            (650, 2, 35, 20),
            (512, 1, 512, 64),
        ):
            for dtype in (torch.float32, torch.bfloat16):
                _recurrence(facts, kind, *shape, dtype)


def _one_attention(
    facts: _Facts, b: int, h: int, hkv: int, s: int, d: int, p: float, dtype: torch.dtype
) -> None:
    def heads(count: int) -> torch.Tensor:
        made = torch.randn(b, s, count, d, device="cuda", dtype=dtype).transpose(1, 2)
        return made.requires_grad_()

    q, k, v = heads(h), heads(hkv), heads(hkv)
    label = f"b{b}h{h}kv{hkv}s{s}d{d}p{p}:{dtype}"
    out = facts.call(
        "sdpa",
        f"fwd:{label}",
        lambda: functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=p, enable_gqa=h != hkv
        ),
        f"q={q.nbytes},kv={k.nbytes}",
    )
    if isinstance(out, torch.Tensor):
        g = torch.randn_like(out)
        facts.call("sdpa", f"bwd:{label}", lambda: torch.autograd.grad(out, (q, k, v), g))


def _attention(facts: _Facts) -> None:
    for dtype in (torch.bfloat16, torch.float32):
        for b, h, hkv, s, d, p in (
            (8, 12, 12, 1024, 64, 0.0),
            (2, 32, 8, 2048, 128, 0.0),
            (8, 12, 12, 1024, 64, 0.1),
            (8, 12, 12, 1000, 64, 0.0),
        ):
            _one_attention(facts, b, h, hkv, s, d, p, dtype)


def _saved(facts: _Facts) -> None:
    x = torch.randn(1024, 1024, device="cuda", requires_grad=True)
    h = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    w = torch.ones(1024, device="cuda", requires_grad=True)
    target = torch.randint(0, 1024, (1024,), device="cuda")
    img = torch.randn(16, 64, 56, 56, device="cuda", requires_grad=True)
    g, m, v = (torch.ones(64, device="cuda") for _ in range(3))
    calls: dict[str, Callable[[], object]] = {
        "add": lambda: x + x,
        "dropout": lambda: functional.dropout(x, 0.1),
        "gelu": lambda: functional.gelu(x),
        "softmax": lambda: x.softmax(-1),
        "layer_norm": lambda: functional.layer_norm(x, (1024,), w, w),
        "rms_norm": lambda: functional.rms_norm(x, (1024,), w),
        "cross_entropy_fp32": lambda: functional.cross_entropy(x, target),
        "cross_entropy_bf16": lambda: functional.cross_entropy(h, target),
        "batch_norm": lambda: functional.batch_norm(img, m, v, g, g, training=True),
        "max_pool": lambda: functional.max_pool2d(img, 3, 2, 1),
        "sum": lambda: x.sum(),
        "sort": lambda: x.detach().sort(-1),
        "embedding_backward": lambda: torch.ops.aten.embedding_dense_backward(
            x, target, 50257, -1, False
        ),
        "cumsum": lambda: x.detach().cumsum(-1),
        "nonzero": lambda: (x > 0).nonzero(),
        "norm": lambda: torch.linalg.vector_norm(x),
        "argmax": lambda: x.argmax(-1),
    }
    for name, call in calls.items():
        facts.call("saved", name, call, "1024x1024 inputs (images: 16x64x56x56)")
    params = [torch.nn.Parameter(torch.randn(1000, 1000, device="cuda")) for _ in range(10)]
    for p in params:
        p.grad = torch.randn_like(p)
    for name, options in (
        ("foreach", {"foreach": True}),
        ("fused", {"fused": True}),
        ("single", {"foreach": False, "fused": False}),
    ):
        opt = torch.optim.AdamW(params, **options)  # type: ignore[arg-type]
        facts.call("optimizer", f"adamw_{name}_first_step", opt.step, "10 x 4,000,000 bytes")
        facts.call("optimizer", f"adamw_{name}_second_step", opt.step)
    facts.call("optimizer", "clip_grad_norm", lambda: torch.nn.utils.clip_grad_norm_(params, 1.0))


def _allocator(facts: _Facts) -> None:
    torch.cuda.empty_cache()
    for size in (
        1,
        511,
        512,
        513,
        1000,
        2**20 - 1,
        2**20,
        2**20 + 1,
        2**21,
        2**21 + 1,
        5 * 2**20,
        10 * 2**20 - 512,
        10 * 2**20,
        10 * 2**20 + 1,
        15 * 2**20 + 7,
        20 * 2**20,
        20 * 2**20 + 1,
        100 * 2**20 + 5,
        1000 * 2**20 + 5,
    ):
        torch.cuda.empty_cache()
        base = torch.cuda.memory_reserved()
        kept = facts.call(
            "allocator",
            f"empty_{size}",
            lambda n=size: torch.empty(n, dtype=torch.uint8, device="cuda"),
        )
        facts.rows[-1][-1] = f"reserved_delta={torch.cuda.memory_reserved() - base}"
        del kept
    sequences = {
        "3x600KiB": [600 * 1024] * 3,
        "4x6MiB": [6 * 2**20] * 4,
        "12MiB_then_3MiB": [12 * 2**20, 3 * 2**20],
        "2x11MiB": [11 * 2**20] * 2,
        "40MiB_free_then_30MiB": [40 * 2**20, -1, 30 * 2**20],
        "40MiB_free_then_39.5MiB": [40 * 2**20, -1, int(39.5 * 2**20)],
        "40MiB_free_then_18MiB_x2": [40 * 2**20, -1, 18 * 2**20, 18 * 2**20],
        "1.5MiB_x10": [3 * 2**19] * 10,
        "300MiB_free_then_2x140MiB": [300 * 2**20, -1, 140 * 2**20, 140 * 2**20],
        "100MiB_free_then_120MiB": [100 * 2**20, -1, 120 * 2**20],
        "21MiB_free_then_19MiB": [21 * 2**20, -1, 19 * 2**20],
        "19MiB_free_then_10MiB_x2": [19 * 2**20, -1, 10 * 2**20, 10 * 2**20],
    }
    for name, steps in sequences.items():
        facts.rows.append(_sequence(name, steps))


def _sequence(name: str, steps: list[int]) -> list[object]:
    """Reserved bytes after each allocation of ``steps`` (-1: free all), from an empty cache."""
    torch.cuda.empty_cache()
    base = torch.cuda.memory_reserved()
    held: list[torch.Tensor] = []
    trail = []
    for step in steps:
        if step < 0:
            held.clear()
        else:
            held.append(torch.empty(step, dtype=torch.uint8, device="cuda"))
        trail.append(torch.cuda.memory_reserved() - base)
    total = sum(h.nbytes for h in held)
    detail = f"sizes {steps}; reserved after each: {trail}"
    return ["allocator_sequence", name, total, "", trail[-1], detail]


def run(out: Path) -> None:
    """Write ``memory.csv.gz`` (columns: :data:`COLUMNS`); must be the process's first CUDA work."""
    facts = _Facts()
    free_before, total = torch.cuda.mem_get_info()
    facts.rows.append(["context", "after_init", "", total - free_before, "", f"total={total}"])
    for part in (_allocator, _blas, _convolutions, _recurrent, _attention, _saved):
        part(facts)
        torch.cuda.empty_cache()
        with gzip.open(out / "memory.csv.gz", "wt", newline="") as stream:
            csv.writer(stream).writerows([COLUMNS, *facts.rows])
