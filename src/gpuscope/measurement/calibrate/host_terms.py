"""What single host calls lack in a program, fitted to the made-up programs of the host bench.

    measured = mixed * (sum of single calls) + dispatch * operators
               + instruction * (bytecode instructions of the Python functions) + start(phase)

by least absolute relative errors with no negative term: `mixed` (1 or more: no call is quicker
between others than in a loop by itself) and `dispatch` since operators that follow each other find
colder caches than one in a loop, `instruction` for the Python between them, `start` for entering a
forward pass, waking the autograd thread, entering the optimizer. What autocast costs a cast is read
off the same programs with it and without. The programs are captured here (without a device) for
their operators and their Python; none of them is a real model, and no real model is ever fitted to.

Operators and the Python between them come together in every program, so a fit can take one for the
other. Python's own speed is measured by itself, too (loops, calls, a module's attributes): where
the fitted `instruction` is far from what these say, theirs is held and the rest fitted anew.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuscope.hardware import CalibratedValue, Calibration
from gpuscope.measurement.bench.types import Point

PYTHON: Mapping[str, float] = {
    "int_loop_1e6": 37.4e-9,
    "call_loop_1e6": 22.4e-9,
    "module_getattr": 109.5e-9,
}
"""Seconds of plain Python on the host of `INSTRUCTION_S` (validation/recordings/h200/micro)."""

INSTRUCTION_S = 7.67e-9
"""What a bytecode instruction between operators takes on that host, as fitted to its programs."""

FAR = 1.6
"""Ratio of a fitted instruction to what plain Python says, above which (or below whose inverse) the
latter is held; hosts whose programs separate both agree within 1.3."""

PHASES: Mapping[str, str] = {
    "no_grad": "forward",
    "grad": "forward",
    "backward": "backward",
    "step": "optimizer",
}
"""Mode of a measured program -> phase of the captured step that it is."""

TERMS = (
    "host.mixed_factor",
    "host.dispatch_s",
    "host.python_instruction_s",
    "host.start.forward_s",
    "host.start.backward_s",
    "host.start.optimizer_s",
)
_STARTS = ("forward", "backward", "optimizer")
_LEAST_ROWS = 12
_REWEIGHTED = 20
_SMALL_ERROR = 0.05
"""Relative errors below this count alike."""


@dataclass(frozen=True, slots=True)
class PhaseWork:
    """What one phase of a captured program asks of the host.

    Attributes:
        single_s: sum of its calls as measured one by one.
        operators: how many, views included.
        instructions: of the Python functions between them.
    """

    single_s: float = 0.0
    operators: int = 0
    instructions: int = 0


@dataclass(frozen=True, slots=True)
class HostTerms:
    """Fitted terms.

    Attributes:
        entries: by constant's name.
        error: mean absolute relative error over all programs, each judged by a fit without it.
        rows: (program, mode, measured seconds, predicted over measured minus 1).
    """

    entries: Mapping[str, CalibratedValue]
    error: float
    rows: tuple[tuple[str, str, float, float], ...]


def host_terms(points: Iterable[Point], constants: Calibration) -> HostTerms | None:
    """Fit the terms; None where too few programs were measured.

    Args:
        points: of the bench "host", families "program" and "python".
        constants: with the single calls of the same host.
    """
    points = tuple(points)
    measured = _measured(points)
    if len(measured) < _LEAST_ROWS:
        return None
    names = sorted({name for name, _ in measured})
    work = {
        (name, whole): program_work(name, whole, constants)
        for name in names
        for whole in (False, True)
    }
    keys, rows, seconds = [], [], []
    for (name, mode), value in sorted(measured.items()):
        found = work[name, mode != "no_grad"].get(PHASES[mode])
        if found is None:
            continue
        keys.append((name, mode))
        rows.append(_row(found, PHASES[mode]))
        seconds.append(value)
    said_s = python_instruction_s(points)
    return _fit(keys, np.array(rows), np.array(seconds), unrest(points), said_s)


def python_instruction_s(points: Iterable[Point]) -> float | None:
    """Seconds of an instruction by the speed of plain Python; None where that was not measured."""
    ratios = [
        p.median_s / PYTHON[name]
        for p in points
        if p.family == "python" and p.median_s and (name := str(p.params.get("name", ""))) in PYTHON
    ]
    return INSTRUCTION_S * float(np.median(ratios)) if ratios else None


def unrest(points: Iterable[Point]) -> float:
    """Return how much the host's own speed changed while its programs were timed.

    Half of what lies between the least and the 90th percentile, relative to the median: the median
    over the programs. 0.03 on a quiet machine, 0.3 and more on one that others share; no model
    foresees it, so that it belongs into the interval.
    """
    found = [
        (p.p90_s - p.min_s) / 2 / p.median_s
        for p in points
        if p.family == "program" and p.median_s and p.min_s is not None and p.p90_s is not None
    ]
    return float(np.median(found)) if found else 0.0


def _measured(points: Iterable[Point]) -> dict[tuple[str, str], float]:
    """Seconds of each program and mode; of several recordings the mean."""
    from gpuscope.measurement.bench.host_program_models import NAMES

    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for p in points:
        name, mode = str(p.params.get("name", "")), str(p.params.get("variant", ""))
        known = p.family == "program" and name in NAMES and mode in PHASES
        if known and p.median_s is not None:
            found[name, mode].append(p.median_s)
    return {key: sum(values) / len(values) for key, values in found.items()}


def program_work(name: str, whole: bool, constants: Calibration) -> dict[str, PhaseWork]:
    """Capture a made-up program and sum its single calls, phase by phase.

    Args:
        name: one of the made-up programs.
        whole: a training step; else a forward pass without gradients.
        constants: with the single calls.
    """
    from gpuscope.cost.engine import NO_KERNEL
    from gpuscope.cost.host.model import HostModel
    from gpuscope.cost.registry import Constants
    from gpuscope.program.capture import capture

    program = capture(lambda: _step(name, whole))
    host = HostModel(Constants(constants), program, single_calls=True)
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0, 0])
    for op in program.ops:
        launches = 0 if op.view or op.name in NO_KERNEL else 1
        cost = host.cost(op, launches)
        found = sums[op.phase]
        found[0] += cost.before_s + launches * cost.per_launch_s + cost.after_s
        found[1] += 1
        found[2] += op.python_instructions
    return {phase: PhaseWork(v[0], int(v[1]), int(v[2])) for phase, v in sums.items()}


def _step(name: str, whole: bool) -> Any:
    import torch

    from gpuscope.measurement.bench.host_program_models import programs

    model, forward = programs("cuda", (name,))[name]
    optimizer = torch.optim.AdamW(model.train().parameters())

    def step() -> None:
        if not whole:
            with torch.no_grad():
                forward(model)
            return
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(forward(model))
        optimizer.step()

    return step


def _row(work: PhaseWork, phase: str) -> list[float]:
    starts = [float(phase == start) for start in _STARTS]
    return [work.single_s, float(work.operators), float(work.instructions), *starts]


def solved(rows: Any, seconds: Any, said_s: float | None) -> Any:
    """Fit the terms; the instruction's is held where the fit is far from what Python says.

    Args:
        rows: [times, terms], what each time holds of each term.
        seconds: [times].
        said_s: an instruction by plain Python's speed; None: not measured, nothing is held.

    Returns:
        [terms], in the order of `TERMS`.
    """
    least = np.zeros(len(TERMS))
    least[TERMS.index("host.mixed_factor")] = 1.0
    beyond = 1 - rows @ least / seconds
    found = robust(rows / seconds[:, None], beyond) + least
    at = TERMS.index("host.python_instruction_s")
    if said_s is None or said_s / FAR <= found[at] <= said_s * FAR:
        return found
    others = np.delete(rows, at, axis=1) / seconds[:, None]
    rest = robust(others, beyond - rows[:, at] * said_s / seconds)
    return np.insert(rest, at, said_s) + least


def _fit(
    keys: Sequence[tuple[str, str]],
    rows: Any,
    seconds: Any,
    unrest: float = 0.0,
    said_s: float | None = None,
) -> HostTerms:
    found = solved(rows, seconds, said_s)
    program = np.array([name for name, _ in keys])
    errors = np.zeros(len(seconds))
    for name in sorted(set(program.tolist())):  # each program judged by the others
        rest = program != name
        held = solved(rows[rest], seconds[rest], said_s)
        errors[~rest] = rows[~rest] @ held / seconds[~rest] - 1
    spread = max(0.03, float(np.quantile(np.abs(errors), 0.8)))
    mean = float(np.abs(errors).mean())
    note = f"fitted to {len(keys)} times of made-up programs; held-out mean error {mean:.0%}"
    entries = {
        name: CalibratedValue(
            value,
            "1" if name.endswith("factor") else "s",
            "calibrated",
            value * (1 - spread),
            value * (1 + spread),
            note,
        )
        for name, value in zip(TERMS, found.tolist(), strict=True)
    }
    entries["host.python_call_s"] = CalibratedValue(
        0.0, "s", "calibrated", 0.0, 0.0, "counted by instructions instead"
    )
    whole = min(0.9, math.hypot(spread, unrest))
    entries["host.scale"] = CalibratedValue(
        1.0,
        "1",
        "calibrated",
        1 - whole,
        1 + whole,
        f"80 % of made-up programs; the host's own speed moved by {unrest:.0%}; {note}",
    )
    listed = tuple(
        (name, mode, float(s), float(e))
        for (name, mode), s, e in zip(keys, seconds, errors, strict=True)
    )
    return HostTerms(entries, mean, listed)


def robust(a: Any, b: Any) -> Any:
    """As `not_negative`, for least absolute errors: rows that do not fit count less and less.

    A program with operators that were not measured one by one must not bend the rest.
    """
    weight = np.ones(len(b))
    x = not_negative(a, b)
    for _ in range(_REWEIGHTED):
        error = np.abs(a @ x - b)
        weight = 1 / np.sqrt(np.maximum(error, _SMALL_ERROR))
        x = not_negative(a * weight[:, None], b * weight)
    return x


def not_negative(a: Any, b: Any) -> Any:
    """Least squares with coefficients of zero or more: what turns negative is dropped.

    Args:
        a: [rows, terms].
        b: [rows].

    Returns:
        [terms].
    """
    active = list(range(a.shape[1]))
    while True:
        x = np.zeros(a.shape[1])
        x[active] = np.linalg.lstsq(a[:, active], b, rcond=None)[0]
        negative = [i for i in active if x[i] < 0]
        if not negative:
            return x
        worst = min(negative, key=lambda i: x[i])
        active.remove(worst)
