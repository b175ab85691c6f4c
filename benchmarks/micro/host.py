"""Host time of PyTorch calls on tiny tensors, without any profiler.

The device finishes each call sooner than the host issues the next, so wall time per call is the
host's own.  Batches of calls are timed between synchronisations, the queue never fills (fewer than
1024 launches), and the median over the batches is kept.
"""

from __future__ import annotations

import csv
import gzip
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

COLUMNS = ("group", "name", "variant", "n", "median_ns", "min_ns", "p90_ns", "batches")
BATCHES = 15
CALLS = 40


class HostBench:
    """Times host calls and collects rows of :data:`COLUMNS`."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.rows: list[list[object]] = []
        self.errors: list[str] = []

    def sync(self) -> None:
        """Wait for the device (nothing to wait for on a CPU)."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def add(self, group: str, name: str, variant: str, n: float, samples_ns: list[float]) -> None:
        """Save one measurement; ``n`` is what the time was divided by already (context only)."""
        ordered = sorted(samples_ns)
        p90 = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
        median = statistics.median(ordered)
        self.rows.append(
            [group, name, variant, n, round(median, 1), round(ordered[0], 1), round(p90, 1),
             len(ordered)]
        )  # fmt: skip

    def calls(
        self, group: str, name: str, variant: str, call: Callable[[], object], count: int = CALLS
    ) -> None:
        """Time ``call`` in batches of ``count`` between synchronisations."""
        try:
            for _ in range(5):
                call()
            self.sync()
            samples = []
            for _ in range(BATCHES):
                began = time.perf_counter_ns()
                for _ in range(count):
                    call()
                samples.append((time.perf_counter_ns() - began) / count)
                self.sync()
            self.add(group, name, variant, count, samples)
        except Exception as error:
            self.errors.append(f"{group},{name},{variant}: {type(error).__name__}: {error}"[:300])

    def once(
        self, group: str, name: str, variant: str, n: float,
        timed: Callable[[], Callable[[], object]], repeats: int = BATCHES,
    ) -> None:  # fmt: skip
        """Time one call at a time over ``n``; ``timed`` prepares (untimed), returns the call."""
        try:
            samples = []
            for i in range(repeats + 2):
                call = timed()
                self.sync()
                began = time.perf_counter_ns()
                call()
                took = (time.perf_counter_ns() - began) / n
                self.sync()
                if i >= 2:
                    samples.append(took)
            self.add(group, name, variant, n, samples)
        except Exception as error:
            self.errors.append(f"{group},{name},{variant}: {type(error).__name__}: {error}"[:300])


def _tensors(device: str, grad: bool) -> dict[str, Any]:
    def make(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(shape, device=device, dtype=dtype).requires_grad_(grad)

    return {
        "x": make(8, 64), "y": make(8, 64), "w": make(64, 64), "b": make(64), "v": make(64),
        "x3": make(2, 8, 64), "q": make(1, 2, 16, 64, dtype=torch.bfloat16),
        "img": make(1, 8, 8, 8), "k": make(8, 8, 3, 3), "g": make(8), "table": make(100, 64),
        "ids": torch.randint(0, 64, (8,), device=device),
        "mask": torch.rand(8, 64, device=device) > 0.5,
        "h": make(8, 64, dtype=torch.bfloat16),
        "run_mean": torch.zeros(8, device=device), "run_var": torch.ones(8, device=device),
        "plain": torch.randn(8, 64, device=device), "b3": make(2, 64, 8),
    }  # fmt: skip


def operators(t: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Name -> call, for the operators of ordinary models, on the tensors of ``_tensors``."""
    x, y, w, b, q, img, k, g = (t[n] for n in ("x", "y", "w", "b", "q", "img", "k", "g"))
    x3, ids, mask, table, h = (t[n] for n in ("x3", "ids", "mask", "table", "h"))
    f = functional
    return {
        "add": lambda: x + y, "add_scalar": lambda: x + 1.0, "sub": lambda: x - y,
        "mul": lambda: x * y, "mul_scalar": lambda: x * 2.0, "div": lambda: x / y,
        "neg": lambda: -x, "pow": lambda: x.pow(2), "exp": lambda: x.exp(),
        "rsqrt": lambda: x.rsqrt(), "cos": lambda: x.cos(), "eq_scalar": lambda: x == 0,
        "where": lambda: torch.where(mask, x, y), "masked_fill": lambda: x.masked_fill(mask, 0.0),
        "mm": lambda: torch.mm(x, w), "matmul2d": lambda: x @ w, "matmul3d2d": lambda: x3 @ w,
        "matmul3d": lambda: x3 @ t["b3"], "bmm": lambda: torch.bmm(x3, t["b3"]),
        "addmm": lambda: torch.addmm(b, x, w), "linear": lambda: f.linear(x, w, b),
        "linear_nobias": lambda: f.linear(x, w), "linear3d": lambda: f.linear(x3, w, b),
        "einsum": lambda: torch.einsum("bsd,de->bse", x3, w),
        "layer_norm": lambda: f.layer_norm(x, (64,), b, b),
        "rms_norm": lambda: f.rms_norm(x, (64,), b),
        "batch_norm_train": lambda: f.batch_norm(
            img, t["run_mean"], t["run_var"], g, g, training=True
        ),
        "group_norm": lambda: f.group_norm(img, 4, g, g),
        "softmax": lambda: x.softmax(-1), "log_softmax": lambda: x.log_softmax(-1),
        "gelu": lambda: f.gelu(x), "silu": lambda: f.silu(x), "relu": lambda: f.relu(x),
        "tanh": lambda: x.tanh(), "sigmoid": lambda: x.sigmoid(),
        "dropout": lambda: f.dropout(x, 0.1),
        "sum": lambda: x.sum(), "mean_last": lambda: x.mean(-1, keepdim=True),
        "amax": lambda: x.amax(-1),
        "argmax": lambda: x.argmax(-1), "topk": lambda: x.topk(4), "cumsum": lambda: x.cumsum(-1),
        "sort": lambda: x.sort(-1), "norm": lambda: torch.linalg.vector_norm(x),
        "view": lambda: x.view(4, 128), "reshape_view": lambda: x.reshape(4, 128),
        "reshape_copy": lambda: x.t().reshape(-1), "transpose": lambda: x.transpose(0, 1),
        "permute": lambda: x3.permute(0, 2, 1), "contiguous_noop": lambda: x.contiguous(),
        "contiguous_copy": lambda: x.t().contiguous(), "unsqueeze": lambda: x.unsqueeze(0),
        "expand": lambda: b.expand(8, 64), "slice": lambda: x[:, :32], "select": lambda: x[0],
        "chunk3": lambda: w.chunk(4, -1), "split": lambda: x.split(32, -1),
        "cat": lambda: torch.cat((x, y)), "stack": lambda: torch.stack((x, y)),
        "clone": lambda: x.clone(), "detach": lambda: x.detach(),
        "to_bf16": lambda: x.to(torch.bfloat16), "to_same": lambda: x.to(torch.float32),
        "embedding": lambda: f.embedding(ids, table), "index": lambda: x3[:, ids % 8],
        "index_tensor": lambda: table[ids], "gather": lambda: x.gather(0, ids[None] % 8),
        "sdpa_causal": lambda: f.scaled_dot_product_attention(q, q, q, is_causal=True),
        "sdpa": lambda: f.scaled_dot_product_attention(q, q, q),
        "conv2d": lambda: f.conv2d(img, k, padding=1), "max_pool2d": lambda: f.max_pool2d(img, 2),
        "adaptive_avg_pool2d": lambda: f.adaptive_avg_pool2d(img, 1),
        "interpolate": lambda: f.interpolate(img, scale_factor=2.0),
        "cross_entropy": lambda: f.cross_entropy(x, ids), "mse_loss": lambda: f.mse_loss(x, y),
        "bf16_add": lambda: h + h, "bf16_mm": lambda: h @ h.t(),
    }  # fmt: skip


def _creation(bench: HostBench) -> None:
    d, plain = bench.device, torch.randn(8, 64, device=bench.device)
    with torch.no_grad():
        for name, call in {
            "empty": lambda: torch.empty(8, 64, device=d),
            "zeros": lambda: torch.zeros(8, 64, device=d),
            "ones": lambda: torch.ones(8, 64, device=d),
            "full": lambda: torch.full((8, 64), 2.0, device=d),
            "arange": lambda: torch.arange(64, device=d),
            "randn": lambda: torch.randn(8, 64, device=d),
            "zeros_like": lambda: torch.zeros_like(plain),
            "empty_like": lambda: torch.empty_like(plain),
            "add_": lambda: plain.add_(1.0), "mul_": lambda: plain.mul_(1.0),
            "copy_": lambda: plain.copy_(plain * 1), "fill_": lambda: plain.fill_(0.5),
            "zero_": lambda: plain.zero_(), "randint": lambda: torch.randint(0, 9, (8,), device=d),
            "tensor_from_list": lambda: torch.tensor([1.0, 2.0], device=d),
            "tensor_cpu": lambda: torch.tensor(1.0), "shape": lambda: plain.shape,
            "size0": lambda: plain.size(0), "is_contiguous": lambda: plain.is_contiguous(),
            "triu": lambda: plain.triu(), "randperm": lambda: torch.randperm(64, device=d),
            "numel": lambda: plain.numel(), "dtype": lambda: plain.dtype,
        }.items():  # fmt: skip
            bench.calls("op", name, "no_grad", call)


def _modules(bench: HostBench) -> None:
    class Empty(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    d = bench.device
    x, x3 = torch.randn(8, 64, device=d), torch.randn(2, 8, 64, device=d)
    empty, linear = Empty(), nn.Linear(64, 64, device=d)
    hooked = Empty()
    hooked.register_forward_hook(lambda *_: None)
    layer = nn.TransformerEncoderLayer(64, 2, 128, device=d, batch_first=True)
    chain = nn.Sequential(*[Empty() for _ in range(10)])
    attention = nn.MultiheadAttention(64, 2, device=d, batch_first=True)
    calls: dict[str, Callable[[], object]] = {
        "python_lambda": lambda: None, "empty_module": lambda: empty(x),
        "empty_module_hooked": lambda: hooked(x), "sequential10_empty": lambda: chain(x),
        "nn_linear": lambda: linear(x),
        "f_linear": lambda: functional.linear(x, linear.weight, linear.bias),
        "encoder_layer": lambda: layer(x3),
        "multihead_attention": lambda: attention(x3, x3, x3, need_weights=False),
    }  # fmt: skip
    norm = nn.LayerNorm(64, device=d)
    calls["nn_layer_norm"] = lambda: norm(x)
    for name, call in calls.items():
        bench.calls("module", name, "grad", call)
        with torch.no_grad():
            bench.calls("module", name, "no_grad", call)
    bench.calls("module", "no_grad_context", "enter_exit", _enter_no_grad)


def _enter_no_grad() -> None:
    with torch.no_grad():
        pass


def _backward(bench: HostBench) -> None:
    """Host time of ``backward()`` per node, for chains of one operator."""
    t = _tensors(bench.device, grad=True)
    x, w, b = t["x"], t["w"], t["b"]
    kinds: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "mul_scalar": lambda z: z * 1.01, "add_scalar": lambda z: z + 1.0, "mul": lambda z: z * z,
        "add_self": lambda z: z + z, "tanh": torch.tanh, "relu": torch.relu,
        "gelu": functional.gelu, "linear": lambda z: functional.linear(z, w, b),
        "mm": lambda z: z @ w, "layer_norm": lambda z: functional.layer_norm(z, (64,), b, b),
        "softmax": lambda z: z.softmax(-1), "dropout": lambda z: functional.dropout(z, 0.1),
        "view": lambda z: z.view(64, 8).view(8, 64), "transpose": lambda z: z.t().t(),
        "cat": lambda z: torch.cat((z[:, :32], z[:, 32:]), -1), "add_bias": lambda z: z + b,
        "to_bf16_and_back": lambda z: z.to(torch.bfloat16).float(),
        "rms_norm": lambda z: functional.rms_norm(z, (64,), b), "clone": torch.clone,
        "silu": functional.silu, "expand_sum": lambda z: z + z.mean(-1, keepdim=True),
    }  # fmt: skip
    count = 100
    for name, op in kinds.items():

        def timed(op: Callable[[torch.Tensor], torch.Tensor] = op) -> Callable[[], object]:
            z = x
            for _ in range(count):
                z = op(z)
            loss = z.sum()
            return lambda: loss.backward()  # type: ignore[no-untyped-call]

        bench.once("backward_per_node", name, "chain100", count, timed)

    def one() -> Callable[[], object]:
        loss = x.sum()
        return lambda: loss.backward()  # type: ignore[no-untyped-call]

    leaves = [torch.randn(8, 64, device=bench.device, requires_grad=True) for _ in range(100)]

    def into_leaves(fresh: bool) -> Callable[[], object]:
        if fresh:
            for leaf in leaves:
                leaf.grad = None
        loss = torch.stack([(leaf * 1.5).sum() for leaf in leaves]).sum()
        return lambda: loss.backward()  # type: ignore[no-untyped-call]

    for label, fresh in (("leaf_mul_sum_grad_none", True), ("leaf_mul_sum_grad_exists", False)):
        bench.once("backward_per_node", label, "100_leaves", 100, lambda f=fresh: into_leaves(f))
    bench.once("backward_per_node", "sum_only_whole_call", "chain1", 1, one)


def _optimizers(bench: HostBench) -> None:
    d = bench.device
    for count in (10, 100, 300, 1000):
        for name, kind, options in (
            ("adamw_foreach", "AdamW", {"foreach": True}),
            ("adamw_fused", "AdamW", {"fused": True}),
            ("adamw_single", "AdamW", {"foreach": False, "fused": False}),
            ("sgd_momentum_foreach", "SGD", {"lr": 0.1, "momentum": 0.9, "foreach": True}),
            ("sgd_momentum_fused", "SGD", {"lr": 0.1, "momentum": 0.9, "fused": True}),
            ("sgd_momentum_single", "SGD", {"lr": 0.1, "momentum": 0.9, "foreach": False}),
        ):  # fmt: skip
            params = [nn.Parameter(torch.randn(64, device=d)) for _ in range(count)]
            for p in params:
                p.grad = torch.randn_like(p)
            if name == "adamw_single" and count > 300:
                continue
            opt = getattr(torch.optim, kind)(params, **options)
            bench.once("optimizer_step", name, str(count), 1, lambda o=opt: o.step, 7)
            if name == "sgd_momentum_foreach":
                bench.once(
                    "clip_grad_norm", "foreach", str(count), 1,
                    lambda ps=params: lambda: nn.utils.clip_grad_norm_(ps, 1.0), 7,
                )  # fmt: skip
                bench.once(
                    "zero_grad", "zero_in_place", str(count), 1,
                    lambda o=opt: lambda: o.zero_grad(set_to_none=False), 7,
                )  # fmt: skip

                def to_none(ps: list[Any] = params, o: Any = opt) -> Callable[[], object]:
                    for p in ps:
                        p.grad = torch.empty(64, device=d)
                    return lambda: o.zero_grad(set_to_none=True)

                bench.once("zero_grad", "set_to_none", str(count), 1, to_none, 7)


def _autocast(bench: HostBench) -> None:
    t = _tensors(bench.device, grad=True)
    x, w, b, h = t["x"], t["w"], t["b"], t["h"]
    with torch.autocast(bench.device, torch.bfloat16):
        bench.calls("autocast", "linear", "cached_weights", lambda: functional.linear(x, w, b))
        bench.calls("autocast", "add", "no_cast", lambda: x + x)
        bench.calls(
            "autocast", "layer_norm", "to_fp32", lambda: functional.layer_norm(h, (64,), b, b)
        )
        bench.calls("autocast", "softmax", "to_fp32", lambda: h.softmax(-1))
    with torch.autocast(bench.device, torch.bfloat16, cache_enabled=False):
        bench.calls("autocast", "linear", "uncached", lambda: functional.linear(x, w, b))
    bench.calls("autocast", "linear", "off", lambda: functional.linear(x, w, b))

    def context() -> None:
        with torch.autocast(bench.device, torch.bfloat16):
            pass

    bench.calls("autocast", "enter_exit", "empty", context)


def _sync_costs(bench: HostBench) -> None:
    one, big = torch.randn(1, device=bench.device), torch.randn(1000, device=bench.device)
    calls: dict[str, Callable[[], object]] = {
        "item": one.item, "synchronize_idle": bench.sync, "cpu_1000": big.cpu,
        "bool": lambda: bool(one > 0),
        "nonzero": lambda: (big > 0).nonzero(), "isnan_any_item": lambda: big.isnan().any().item(),
    }  # fmt: skip
    for name, call in calls.items():
        bench.calls("sync", name, "round_trip", call)

    def launch_and_sync() -> None:
        one.add_(1.0)
        bench.sync()

    bench.calls("sync", "tiny_kernel_then_synchronize", "round_trip", launch_and_sync)


def _copies(bench: HostBench) -> None:
    """Host cost of copies and of memory calls that miss the cache."""
    d = bench.device
    for size in (1024, 1 << 16, 1 << 20):
        host = torch.ones(size, dtype=torch.uint8)
        pinned = host.pin_memory() if d == "cuda" else host
        there = torch.empty(size, dtype=torch.uint8, device=d)
        bench.calls("copy", "h2d_pageable", str(size), lambda a=there, b=host: a.copy_(b), 10)
        bench.calls(
            "copy", "h2d_pinned_blocking", str(size), lambda a=there, b=pinned: a.copy_(b), 10
        )
        bench.calls(
            "copy", "h2d_pinned_non_blocking", str(size),
            lambda a=there, b=pinned: a.copy_(b, non_blocking=True), 10,
        )  # fmt: skip
        bench.calls("copy", "d2h_pageable", str(size), lambda a=there: a.cpu(), 10)
        bench.calls("copy", "to_device_pageable", str(size), lambda b=host: b.to(d), 10)
        bench.calls("copy", "pin_memory", str(size), lambda b=host: b.pin_memory(), 5)
    if d != "cuda":
        return
    for size in (1 << 20, 1 << 25, 1 << 30):

        def fresh(n: int = size) -> Callable[[], object]:
            torch.cuda.empty_cache()
            return lambda: torch.empty(n, dtype=torch.uint8, device=d)

        def freed(n: int = size) -> Callable[[], object]:
            torch.cuda.empty_cache()
            torch.empty(n, dtype=torch.uint8, device=d)
            return torch.cuda.empty_cache

        bench.once("memory", "cuda_malloc", str(size), 1, fresh, 7)
        bench.once("memory", "cuda_free", str(size), 1, freed, 7)


def _python_score(bench: HostBench) -> None:
    """Single-thread CPU scores: fixed Python loops, to tell one host from another."""

    def integers() -> None:
        total = 0
        for i in range(1_000_000):
            total += i * i

    def calls() -> None:
        def nothing(a: int) -> int:
            return a

        for i in range(1_000_000):
            nothing(i)

    def attributes() -> None:
        module = nn.Linear(2, 2)
        for _ in range(200_000):
            _ = module.weight

    for name, loop, n in (("int_loop_1e6", integers, 1e6), ("call_loop_1e6", calls, 1e6),
                          ("module_getattr", attributes, 2e5)):  # fmt: skip
        bench.once("python", name, "per_iteration", n, lambda f=loop: f, 5)
    a = torch.randn(1000, 1000)
    torch.set_num_threads(1)
    bench.once("python", "cpu_mm_1000_one_thread", "whole", 1, lambda: lambda: a @ a, 5)


def run(out: Path, device: str = "cuda") -> HostBench:
    """Run every host bench and write ``host.csv.gz`` (columns: :data:`COLUMNS`)."""
    import host_queue

    bench = HostBench(device)
    _python_score(bench)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            for name, call in operators(_tensors(device, grad)).items():
                bench.calls("op", name, "grad" if grad else "no_grad", call)
    with torch.inference_mode():
        for name, call in list(operators(_tensors(device, False)).items())[:40:3]:
            bench.calls("op", name, "inference_mode", call)
    for part in (_creation, _modules, _backward, _optimizers, _autocast, _sync_costs, _copies):
        part(bench)
    if device == "cuda":
        host_queue.run(bench)
    with gzip.open(out / "host.csv.gz", "wt", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        writer.writerows(bench.rows)
    (out / "host.errors.txt").write_text("\n".join(bench.errors))
    return bench
