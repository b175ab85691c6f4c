"""Constants of an engine's host and efficiency from measured runs: `serve --calibrate`.

The requests of each run are served again by the simulator, at their own times and lengths, and four
factors (`gpuscope.serving.tuning`) are moved until TTFT and TPOT come out as measured: least
squares of logarithms, by Gauss-Newton, with Huber's weights. A run's requests are taken in up to
ten stretches of their order, whose medians are compared, so that a long run counts as a short one.
What the runs say nothing of stays; what they cannot tell apart is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.serving.document import load_serving
from gpuscope.serving.metrics import tpot_s, ttft_s
from gpuscope.serving.requests import Floats, Requests
from gpuscope.serving.result import FINISHED, Served, Serving
from gpuscope.serving.simulate import Deployment, serve_requests
from gpuscope.serving.traces import requests_of
from gpuscope.serving.tuning import MOST, SORTS, Factor, Tuning, scaled
from gpuscope.serving.verb import deployment

STRETCHES = 10
LEAST_TOKENS = 8
"""Answers that are shorter have no TPOT here: their first tokens leave together."""

_STEP = 0.2
"""Of a logarithm, for derivatives. Simulated queues are rough: over 0.1, six known sets of
constants came back up to 24 % off, over 0.2 up to 4 %."""
_ROUGH = 0.1  # residuals beyond it weigh less
_LEAST_SENSITIVITY = 0.05
"""A constant that changes nothing by more than a twentieth of its own change is not seen: what it
would have to explain is less than the simulator is off."""
_MOST_SPREAD = 0.3
"""A standard error beyond it: the runs do not say what the constant is."""
_ROUNDS = 12
_BETTER = 0.9999  # share of the loss that a step has to leave, at most; else the fit is done
_MOST_CACHED = 0.02  # of the prompts' tokens, found in the prefix cache


@dataclass(frozen=True, slots=True)
class Fit:
    """What came of it.

    Attributes:
        tuning: the factors.
        measured: the runs.
        before, after: predicted ones, in their order.
    """

    tuning: Tuning
    measured: tuple[Serving, ...]
    before: tuple[Serving, ...]
    after: tuple[Serving, ...]


def calibrate(found: Deployment, measured: Sequence[Serving]) -> Fit:
    """Fit the factors of a deployment to runs of it.

    Args:
        found: as its profile has it.
        measured: runs of one model on one machine.

    Raises:
        InvalidValueError: nothing to compare with, or constants that cannot be told apart, as of
            one load alone: what the simulator is off by goes into any of them.
    """
    asked = [asked_again(each) for each in measured]
    told = [observed(each.served) for each in measured]
    known = np.concatenate([np.isfinite(each) for each in told])
    if not known.any():
        raise InvalidValueError(
            Text("No request of the measured runs finished."),
            "",
            Text("Measure again: gpuscope load URL --output FILE"),
        )
    if len(measured) < 2:
        raise _cannot_tell("device", "host")
    weight = np.concatenate([np.full(len(each), 1 / np.sqrt(len(each))) for each in told])[known]
    truth = np.log(np.concatenate(told)[known])

    def residuals(factors: Mapping[str, float]) -> Floats:
        runs = [serve_requests(_with(found, factors), each) for each in asked]
        mine = np.concatenate([observed(run.served) for run in runs])[known]
        return np.asarray(np.log(mine) - truth, np.float64)

    factors = _fitted(residuals, weight, dict.fromkeys(SORTS, 1.0))
    final = {name: factor.value for name, factor in factors.items()}
    before, after = (
        tuple(serve_requests(_with(found, each), one) for one in asked) for each in ({}, final)
    )
    errors = [_mean_error(residuals(each), weight) for each in ({}, final)]
    tuning = Tuning(
        engine=found.engine.name, model=found.model, devices=found.devices, factors=factors,
        runs=len(measured), requests=sum(len(each.served) for each in measured),
        error_before=errors[0], error_after=errors[1],
    )  # fmt: skip
    return Fit(tuning, tuple(measured), before, after)


def calibrate_files(
    paths: Sequence[str | Path], model: str | None = None, on: str = "h200", **how: Any
) -> Fit:
    """Fit the factors to saved runs of `gpuscope load`.

    Args:
        paths: of the runs: one model on one machine.
        model: that was served; by default as the runs name it.
        on: the devices that served it.
        how: the engine and its settings, as `gs.serve` takes them.

    Raises:
        InputFileError: a file is no saved run.
        InvalidValueError: runs that say nothing of the server, or not enough.
        GpuscopeError: a model, device or engine that is not known.
    """
    runs = [_usable(load_serving(path), path) for path in paths]
    first = runs[0]
    for path, each in zip(paths, runs, strict=True):
        if each.model != first.model:
            raise InvalidValueError(
                Text("{path} is a run of {other}, the first of {model}.", path=Path(path),
                     other=each.model, model=first.model),
                "",
                Text("Calibrate with the runs of one model."),
            )  # fmt: skip
    how["kv_blocks"] = how.get("kv_blocks") or first.kv_blocks
    return calibrate(deployment(model or first.model, on, **how), runs)


def _usable(run: Serving, path: str | Path) -> Serving:
    """A run that says something of its server."""
    found, queried = (run.server.get(f"prefix_{name}_tokens") for name in ("hit", "queried"))
    if run.origin != "measured":
        why = Text("It was predicted.")
    elif "void" in run.client:
        why = Text("Its client was the limit.")
    elif queried and float(found or 0) > _MOST_CACHED * float(queried):
        why = Text("Prompts were found in the server's cache, and which is not known.")
    else:
        return run
    raise InvalidValueError(
        Text("{path} says nothing of the engine's constants.", path=Path(path)),
        why,
        Text("Measure again: gpuscope load URL --output FILE"),
    )


def asked_again(run: Serving) -> Requests:
    """What was asked of a server, to be asked of the simulator."""
    again = requests_of(run, run.name)
    places = int(float(run.settings.get("concurrency") or 0))
    return again.at_concurrency(places) if places else again


def observed(served: Served) -> Floats:
    """Medians of TTFT and TPOT over stretches of the requests, seconds; NaN where not known."""
    done = served.status == FINISHED
    ttft = np.where(done, ttft_s(served), np.nan)
    tpot = np.where(done & (served.output_tokens >= LEAST_TOKENS), tpot_s(served), np.nan)
    order = np.argsort(served.intended_s, kind="stable")
    parts = np.array_split(order, min(STRETCHES, len(order)))
    return np.array([_median(times[part]) for times in (ttft, tpot) for part in parts])


def _median(times_s: Floats) -> float:
    known = times_s[np.isfinite(times_s) & (times_s > 0)]
    return float(np.median(known)) if len(known) else np.nan


def _with(found: Deployment, factors: Mapping[str, float]) -> Deployment:
    engine = scaled(found.engine, factors)
    return replace(found, engine=engine, cost=replace(found.cost, scale=engine.device_scale))


def _mean_error(off: Floats, weight: Floats) -> float:
    return float(np.average(np.abs(np.expm1(off)), weights=weight**2))


def _fitted(
    residuals: Callable[[Mapping[str, float]], Floats], weight: Floats, start: dict[str, float]
) -> dict[str, Factor]:
    """Gauss-Newton on the logarithms of the factors that are seen."""
    slopes = _slopes(residuals, start)
    seen = [n for n, each in slopes.items() if _rms(each, weight) >= _LEAST_SENSITIVITY]
    factors, off = dict(start), residuals(start)
    for _ in range(_ROUNDS):
        huber = weight * np.sqrt(np.minimum(1.0, _ROUGH / np.maximum(np.abs(off), 1e-12)))
        table = np.column_stack([slopes[name] for name in seen]) * huber[:, None]
        step = -np.linalg.lstsq(table, off * huber, rcond=1e-6)[0]
        moved = _stepped(residuals, weight, factors, off, dict(zip(seen, step, strict=True)))
        if moved is None:
            break
        factors, off = moved
        slopes = _slopes(residuals, factors, seen)
    spread = _spreads(slopes, seen, off, weight)
    return {name: Factor(value=factors[name], spread=spread.get(name)) for name in start}


def _slopes(
    residuals: Callable[[Mapping[str, float]], Floats],
    factors: Mapping[str, float],
    names: Sequence[str] = tuple(SORTS),
) -> dict[str, Floats]:
    """Of the residuals, by the logarithm of each factor."""
    found = {}
    for name in names:
        high, low = (
            residuals({**factors, name: factors[name] * float(np.exp(step))})
            for step in (_STEP, -_STEP)
        )
        found[name] = (high - low) / (2 * _STEP)
    return found


def _rms(slope: Floats, weight: Floats) -> float:
    return float(np.sqrt(np.average(slope**2, weights=weight**2)))


def _loss(off: Floats, weight: Floats) -> float:
    """Huber's: squares near zero, straight beyond."""
    size = np.abs(off)
    each = np.where(size <= _ROUGH, size**2, _ROUGH * (2 * size - _ROUGH))
    return float((weight**2 * each).sum())


def _stepped(
    residuals: Callable[[Mapping[str, float]], Floats],
    weight: Floats,
    factors: dict[str, float],
    off: Floats,
    step: Mapping[str, float],
) -> tuple[dict[str, float], Floats] | None:
    """The step, or as much of it as makes things better; None where nothing does."""
    for share in (1.0, 0.5, 0.25, 0.1):
        tried = dict(factors)
        for name, by in step.items():
            tried[name] = float(np.clip(factors[name] * np.exp(share * by), 1 / MOST, MOST))
        now = residuals(tried)
        if _loss(now, weight) < _BETTER * _loss(off, weight):
            return tried, now
    return None


def _spreads(
    slopes: Mapping[str, Floats], seen: Sequence[str], off: Floats, weight: Floats
) -> dict[str, float]:
    """Relative standard errors.

    Raises:
        InvalidValueError: two constants change the same figures alike.
    """
    table = np.column_stack([slopes[name] for name in seen]) * weight[:, None]
    left = max(float(np.sqrt(np.average(off**2, weights=weight**2))), 0.02)
    scale = left**2 * float((weight**2).sum()) / max(len(off) - len(seen), 1)
    normal = table.T @ table
    normal += 1e-9 * np.trace(normal) * np.eye(len(seen))  # alike: a huge error, not none
    covariance = np.linalg.inv(normal) * scale
    error = np.sqrt(np.diag(covariance))
    for at, name in enumerate(seen):
        if error[at] > _MOST_SPREAD:
            raise _alike(seen, at, covariance / np.outer(error, error), name)
    return {name: float(each) for name, each in zip(seen, error, strict=True)}


def _alike(seen: Sequence[str], at: int, related: Floats, name: str) -> InvalidValueError:
    others = [abs(related[at, other]) if other != at else -1.0 for other in range(len(seen))]
    other = seen[int(np.argmax(others))] if len(seen) > 1 else name
    return _cannot_tell(name, other)


def _cannot_tell(one: str, other: str) -> InvalidValueError:
    return InvalidValueError(
        Text(
            "These runs cannot tell {one} and {other} apart.",
            one=SORTS[one].label,
            other=SORTS[other].label,
        ),
        Text("Both change their latencies alike."),
        Text(
            "Measure another load as well, one request in flight and many, and give both: "
            "--calibrate a.json.gz,b.json.gz"
        ),
    )
