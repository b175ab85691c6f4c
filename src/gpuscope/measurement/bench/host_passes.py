"""Host time of a backward pass a node, of optimizer steps, of zeroing and clipping gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gpuscope.measurement.bench.host_calls import tensors
from gpuscope.measurement.bench.host_timing import HostTimer

CHAIN = 100
"""Nodes of one chain: launches of its backward pass must fit in the queue."""

OPTIMIZERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("adamw_foreach", "AdamW", {"foreach": True}),
    ("adamw_fused", "AdamW", {"fused": True}),
    ("adamw_single", "AdamW", {"foreach": False, "fused": False}),
    ("sgd_momentum_foreach", "SGD", {"lr": 0.1, "momentum": 0.9, "foreach": True}),
    ("sgd_momentum_fused", "SGD", {"lr": 0.1, "momentum": 0.9, "fused": True}),
    ("sgd_momentum_single", "SGD", {"lr": 0.1, "momentum": 0.9, "foreach": False}),
)
"""Name, class in torch.optim, options."""


def _kinds(t: dict[str, Any]) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    w, b = t["w"], t["b"]
    return {
        "mul_scalar": lambda z: z * 1.01,
        "add_scalar": lambda z: z + 1.0,
        "mul": lambda z: z * z,
        "add_self": lambda z: z + z,
        "tanh": torch.tanh,
        "relu": torch.relu,
        "gelu": functional.gelu,
        "linear": lambda z: functional.linear(z, w, b),
        "mm": lambda z: z @ w,
        "layer_norm": lambda z: functional.layer_norm(z, (64,), b, b),
        "softmax": lambda z: z.softmax(-1),
        "dropout": lambda z: functional.dropout(z, 0.1),
        "view": lambda z: z.view(64, 8).view(8, 64),
        "transpose": lambda z: z.t().t(),
        "cat": lambda z: torch.cat((z[:, :32], z[:, 32:]), -1),
        "add_bias": lambda z: z + b,
        "to_bf16_and_back": lambda z: z.to(torch.bfloat16).float(),
        "rms_norm": lambda z: functional.rms_norm(z, (64,), b),
        "clone": torch.clone,
        "silu": functional.silu,
        "expand_sum": lambda z: z + z.mean(-1, keepdim=True),
    }


def measure_backward(timer: HostTimer) -> None:
    """`backward()` of chains of one operator (seconds a link), and of many leaves."""
    t = tensors(timer.device, grad=True)
    x = t["x"]
    for name, op in _kinds(t).items():

        def chain(op: Callable[[torch.Tensor], torch.Tensor] = op) -> Callable[[], object]:
            z = x
            for _ in range(CHAIN):
                z = op(z)
            loss = z.sum()
            return lambda: torch.autograd.backward(loss)

        timer.once("backward_per_node", name, f"chain{CHAIN}", chain, CHAIN)

    def one() -> Callable[[], object]:
        loss = x.sum()
        return lambda: torch.autograd.backward(loss)

    leaves = [torch.randn(8, 64, device=timer.device, requires_grad=True) for _ in range(100)]

    def into_leaves(fresh: bool) -> Callable[[], object]:
        if fresh:
            for leaf in leaves:
                leaf.grad = None
        loss = torch.stack([(leaf * 1.5).sum() for leaf in leaves]).sum()
        return lambda: torch.autograd.backward(loss)

    for label, fresh in (("leaf_mul_sum_grad_none", True), ("leaf_mul_sum_grad_exists", False)):
        timer.once("backward_per_node", label, "100_leaves", partial(into_leaves, fresh), 100)
    timer.once("backward_per_node", "sum_only_whole_call", "chain1", one)


def measure_optimizers(timer: HostTimer, counts: tuple[int, ...] = (10, 100, 300)) -> None:
    """Steps of optimizers by number of tiny parameters; clipping and zeroing beside."""
    for count in counts:
        for name, kind, options in OPTIMIZERS:
            if name.endswith("single") and count > 100:
                continue
            params = _parameters(count, timer.device)
            try:
                optimizer = getattr(torch.optim, kind)(params, **options)
            except RuntimeError as error:
                timer.failures.append(f"optimizer_step,{name},{count}: {error}"[:300])
                continue
            timer.once("optimizer_step", name, str(count), partial(_step_of, optimizer), 1, 7)
        _gradients(timer, count)


def _step_of(optimizer: torch.optim.Optimizer) -> Callable[[], object]:
    return optimizer.step


def _parameters(count: int, device: str) -> list[nn.Parameter]:
    params = [nn.Parameter(torch.randn(64, device=device)) for _ in range(count)]
    for p in params:
        p.grad = torch.randn_like(p)
    return params


def _gradients(timer: HostTimer, count: int) -> None:
    params = _parameters(count, timer.device)
    optimizer = torch.optim.SGD(params, lr=0.1)
    timer.once(
        "clip_grad_norm",
        "foreach",
        str(count),
        lambda: lambda: nn.utils.clip_grad_norm_(params, 1.0),
        1,
        7,
    )
    timer.once(
        "zero_grad",
        "zero_in_place",
        str(count),
        lambda: lambda: optimizer.zero_grad(set_to_none=False),
        1,
        7,
    )

    def to_none() -> Callable[[], object]:
        for p in params:
            p.grad = torch.empty(64, device=timer.device)
        return lambda: optimizer.zero_grad(set_to_none=True)

    timer.once("zero_grad", "set_to_none", str(count), to_none, 1, 7)
