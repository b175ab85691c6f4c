"""Small trainings on a processor, with useless work that a change can leave out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

torch.set_num_threads(1)


def _useless() -> None:
    if os.environ.get("USELESS_WORK") != "0":
        held = torch.ones(256, 256)
        for _ in range(12):
            held = held @ held * 1e-3


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


def _training(model: Any, factor: float = 1.0) -> Callable[[], object]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    def step() -> None:
        _useless()
        x = torch.randn(16, 32, device="cuda")
        optimizer.zero_grad()
        found: torch.Tensor = _Square.apply(model(x))
        loss = found.mean() * factor
        loss.backward()
        optimizer.step()

    return step


def build() -> Callable[[], object]:
    layers = torch.nn.Linear(32, 64), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(64, 4)
    return _training(torch.nn.Sequential(*layers))


def varying() -> Callable[[], object]:
    """Each process gets other results: a file counts them."""
    counter = Path(os.environ["PROCESS_COUNTER"])
    number = len(counter.read_text()) if counter.exists() else 0
    counter.write_text("x" * (number + 1))
    return _training(torch.nn.Linear(32, 4), 1 + 0.05 * (number * 0.618 % 1))


def inference() -> Callable[[], object]:
    model = torch.nn.Linear(32, 4).eval()

    @torch.no_grad()
    def step() -> None:
        _useless()
        model(torch.randn(16, 32))

    return step


def short_data() -> Callable[[], object]:
    """Fewer batches than a trial takes steps."""
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    batches = iter(torch.utils.data.DataLoader(torch.randn(12, 8), batch_size=4, shuffle=True))

    def step() -> None:
        _useless()
        x = next(batches).cuda()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def fails() -> Callable[[], object]:
    raise ValueError("no such data")
