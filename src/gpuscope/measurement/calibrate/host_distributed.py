"""What the Python of `torch.distributed` takes on a host, from its made-up programs.

DTensor and FSDP2 are many short functions that ask C++ for one thing each, and too much code to
stay in a CPU's caches while operators run in between: an instruction of theirs takes longer than
one of a model's. Of a program that is cut or sharded, what it takes beyond the whole one is told by

    (measured - measured whole) - (predicted - predicted whole) = instruction * (their instructions)

where what is predicted leaves these instructions out; the middle of all such programs and passes.
In the optimizer the same few functions run for one parameter after the other, and stay in the
caches: there an instruction costs what any does.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from gpuscope.cost.engine import NO_KERNEL
from gpuscope.cost.host.model import HostModel, host_class
from gpuscope.cost.registry import Constants
from gpuscope.hardware import CalibratedValue, Calibration
from gpuscope.measurement.bench.types import Point
from gpuscope.measurement.calibrate.host_terms import INSTRUCTION_S, python_instruction_s

__all__ = ["CONSTANT", "distributed_entry", "sharded_programs"]

CONSTANT = "host.distributed_instruction_s"
_PASSES = {"grad": "forward", "backward": "backward"}
_FUNCTIONAL, _BLOCKING = ("all_reduce", "operator"), ("all_gather", "blocking")
"""Calls of a group that moves nothing (`bench.host_sharded`)."""


def distributed_entry(
    points: Iterable[Point], constants: Calibration, base: Calibration
) -> CalibratedValue | None:
    """The constant of this host; None where nothing says how fast its Python is.

    Args:
        points: of the bench "host", families "sharded" and "python".
        constants: with the single calls and terms of the same host.
        base: with the constant of the host that `INSTRUCTION_S` is of, for one whose programs were
            not measured.
    """
    points = tuple(points)
    found = _fitted(points, constants)
    if found:
        middle = statistics.median(found)
        apart = max(abs(value - middle) for value in found)
        note = f"made-up programs, {len(found)} passes: {min(found):.3g} to {max(found):.3g} s"
        return CalibratedValue(
            middle, "s", "calibrated", max(0.0, middle - apart), middle + apart, note
        )
    said_s = python_instruction_s(points)
    if said_s is None:
        return None
    was = base.entry(CONSTANT)
    ratio = said_s / INSTRUCTION_S
    note = "by the speed of plain Python; programs of torch.distributed were not measured"
    return CalibratedValue(
        was.value * ratio, "s", "calibrated", was.low * ratio, was.high * ratio, note
    )


def _fitted(points: tuple[Point, ...], constants: Calibration) -> list[float]:
    """Seconds of an instruction by each program and pass."""
    measured = {
        (str(p.params.get("name")), str(p.params.get("variant"))): p.median_s
        for p in points
        if p.family == "sharded" and p.median_s is not None
    }
    if ("whole", "grad") not in measured:
        return []
    work = {name: _work(program, constants, measured) for name, program in sharded_programs()}
    found = []
    for name, phases in work.items():
        for mode, phase in _PASSES.items():
            seconds = measured.get((name, mode))
            if name == "whole" or seconds is None:
                continue
            predicted_s, count = phases[phase]
            beyond_s = seconds - measured["whole", mode]
            beyond_s -= predicted_s - work["whole"][phase][0]
            found.append(max(0.0, beyond_s) / count)
    return found


def sharded_programs() -> Iterable[tuple[str, Any]]:
    """Each made-up program as rank 0 of two records it, without a device."""
    from gpuscope.measurement.bench.host_sharded import PROGRAMS
    from gpuscope.program.ranks import capture_ranks
    from gpuscope.program.world import World

    for name in PROGRAMS:
        yield name, capture_ranks(partial(_step, name), World(2, 0, 2)).programs[0]


def _step(name: str) -> Any:
    import torch
    import torch.distributed as dist

    from gpuscope.measurement.bench.host_sharded import PROGRAMS, forward_of, optimizer_of

    dist.init_process_group("nccl")
    model = PROGRAMS[name]("cuda").train()
    forward, optimizer = forward_of("cuda", name), optimizer_of(model)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(forward(model))
        optimizer.step()

    return step


def _work(
    program: Any, constants: Calibration, measured: Mapping[tuple[str, str], float]
) -> dict[str, tuple[float, int]]:
    """Phase -> seconds without the Python of `torch.distributed`, and its instructions."""
    host = HostModel(Constants(constants), program)
    host.distributed_s = 0.0
    found: dict[str, tuple[float, int]] = {}
    for op in program.ops:
        launches = 0 if op.view or op.name in NO_KERNEL else 1
        cost = host.cost(op, launches)
        seconds = cost.before_s + launches * cost.per_launch_s + cost.after_s
        if host_class(op.name) == "collective":  # a group that moves nothing
            way = _FUNCTIONAL if "functional" in op.name else _BLOCKING
            python_s = 0.0 if op.distributed else op.python_instructions * host.instruction_s
            seconds = python_s + measured.get(way, 0.0) * ("wait" not in op.name)
        before, count = found.get(op.phase, (0.0, 0))
        found[op.phase] = before + seconds, count + op.distributed * op.python_instructions
    return found
