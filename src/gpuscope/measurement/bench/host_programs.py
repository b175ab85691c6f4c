"""Times small made-up programs: no gradient, forward, backward, optimizer, whole step."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from gpuscope.measurement.bench.host_calls import ROUNDS
from gpuscope.measurement.bench.host_program_models import programs
from gpuscope.measurement.bench.host_timing import HostTimer

GROUP = "program"
WARM_UP = 4


def measure_programs(timer: HostTimer, repeats: int = 25, names: tuple[str, ...] = ()) -> None:
    """Seconds of each program in each mode (`HostSample.variant`).

    Modes: "no_grad", "autocast" (forward), "grad" (forward that records), "backward", "step"
    (AdamW, foreach), "zero" (gradients to None), "whole" (a training step without waits inside).
    All programs by default, or those of these names.
    """
    built = programs(timer.device, names)
    optimizers = {n: torch.optim.AdamW(m.train().parameters()) for n, (m, _) in built.items()}
    for _ in range(ROUNDS):
        for name, (model, forward) in built.items():
            try:
                _measure(timer, name, model, forward, optimizers[name], -(-repeats // ROUNDS))
            except RuntimeError as error:
                timer.failures.append(f"{GROUP},{name}: {type(error).__name__}: {error}"[:300])


def _measure(
    timer: HostTimer,
    name: str,
    model: nn.Module,
    forward: Callable[[nn.Module], torch.Tensor],
    optimizer: torch.optim.Optimizer,
    repeats: int,
) -> None:
    kind = torch.device(timer.device).type
    times: dict[str, list[float]] = {}

    def timed(mode: str, call: Callable[[], Any]) -> Any:
        timer.wait()
        began = time.perf_counter_ns()
        out = call()
        times.setdefault(mode, []).append((time.perf_counter_ns() - began) * 1e-9)
        timer.wait()
        return out

    def plain() -> None:
        with torch.no_grad():
            forward(model)

    def cast() -> None:
        with torch.autocast(kind, dtype=torch.bfloat16):
            forward(model)

    def whole() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(forward(model))
        optimizer.step()

    for _ in range(repeats + WARM_UP):
        timed("no_grad", plain)
        timed("autocast", cast)
        loss = timed("grad", lambda: forward(model))
        timed("backward", loss.backward)
        timed("step", optimizer.step)
        timed("zero", lambda: optimizer.zero_grad(set_to_none=True))
    for _ in range(repeats + WARM_UP):
        timed("whole", whole)
    for mode, seconds in times.items():
        timer.add(GROUP, name, mode, seconds[WARM_UP:])
