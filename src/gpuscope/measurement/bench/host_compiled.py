"""What compiled code costs the host: kernels, library calls, guards, gradients.

Each figure is the time of a call of a compiled function, with tiny tensors, at two sizes; what one
more kernel, library call or layer costs is the difference (`calibrate.host_compiled_constants`).
Compiling takes seconds, so the quick bench leaves this out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from gpuscope.measurement.bench.host_timing import HostTimer
from gpuscope.measurement.calibrate.host_compiled_constants import KERNELS, LAYERS, LIBRARY

_CALLS = 10


class _Sum(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.sum()


def slices(count: int, device: str) -> Callable[[], object]:
    """`count` generated kernels, no parameter."""
    x = torch.randn(4096, device=device)
    return lambda: [x[: 64 + 3 * i] * 2.0 for i in range(count)]


def products(count: int, device: str) -> Callable[[], object]:
    """`count` library calls, no parameter."""
    x, w = torch.randn(64, 64, device=device), torch.randn(64, 64, device=device)

    def run() -> object:
        y = x
        for _ in range(count):
            y = y @ w
        return y

    return run


def network(layers: int, device: str) -> nn.Module:
    """`layers` linear layers with layer norms, and a sum: one number comes out."""
    pairs = [nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64)) for _ in range(layers)]
    return nn.Sequential(*pairs, _Sum()).to(device)


def measure_compiled(timer: HostTimer) -> None:
    """Calls of compiled functions and networks, and training steps; nothing without a GPU."""
    if not timer.on_gpu:
        return
    try:
        for name, make, counts in (("kernels", slices, KERNELS), ("library", products, LIBRARY)):
            for count in counts:
                torch._dynamo.reset()
                function = torch.compile(make(count, timer.device))
                function()
                timer.calls("compiled", name, str(count), function, _CALLS)
        for layers in LAYERS:
            _network(timer, layers)
    except Exception as error:  # no compiler on this machine: the rest of the bench goes on
        timer.failures.append(f"compiled,torch.compile,: {type(error).__name__}: {error}"[:300])
    finally:
        torch._dynamo.reset()


def _network(timer: HostTimer, layers: int) -> None:
    """A compiled network: without gradients, with them, and the backward pass."""
    torch._dynamo.reset()
    net = network(layers, timer.device)
    compiled = torch.compile(net)
    x = torch.randn(64, 64, device=timer.device)

    def plain() -> object:
        with torch.no_grad():
            return compiled(x)

    def forward() -> Callable[[], object]:
        for p in net.parameters():
            p.grad = None
        return lambda: compiled(x)

    def backward() -> Callable[[], object]:
        for p in net.parameters():
            p.grad = None
        loss = compiled(x)
        return lambda: loss.backward()

    plain(), backward()()
    timer.calls("compiled", "network", str(layers), plain, _CALLS)
    timer.once("compiled", "forward", str(layers), forward)
    timer.once("compiled", "backward", str(layers), backward)
