"""What answers a run's findings: changes of its code, predicted, with the diff that makes them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from gpuscope.advice.forecast.combinations import allowed
from gpuscope.advice.forecast.explanation import numerics_of
from gpuscope.advice.forecast.forecaster import NOISE, Forecaster
from gpuscope.advice.registry import find
from gpuscope.advice.results import Advice, Forecast
from gpuscope.advice.source.patches import patch_of
from gpuscope.advice.types import ChangeCase
from gpuscope.document.text import joined
from gpuscope.run import Remedy, Run

__all__ = ["answering", "answers", "remedies_of"]

TRIED = 2
"""Changes that are predicted for one finding: each is captured anew, which takes seconds."""

MOST = 5
"""Changes that are predicted for one run."""


@cache
def answering() -> Mapping[str, tuple[str, ...]]:
    """Names of the changes that answer a finding, by its kind, what asks least of the code
    first."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {kind: tuple(names) for kind, names in table.items()}


def answers(forecaster: Forecaster, run: Run) -> tuple[Remedy, ...]:
    """Predict what answers a run's findings, the best change for each; what gains nothing is left.

    Args:
        forecaster: of the workload that the run is a prediction of.
        run: whose findings are answered, largest first.

    Raises:
        GpuscopeError: the workload cannot be captured as code.
    """
    case, start = forecaster.case, forecaster.forecast(())
    best: dict[str, Forecast] = {}
    tried: set[str] = set()
    for finding in run.analysis.findings:
        names = answering().get(finding.kind, ()) if finding.max_gain_s != 0 else ()
        able = [n for n in names if allowed(n, case, ()) and forecaster.fit(n).applies][:TRIED]
        able = [n for n in able if n in tried or len(tried) < MOST]
        tried.update(able)
        found = [f for f in (forecaster.forecast((n,)) for n in able) if _gains(f)]
        if found:
            first = max(found, key=lambda f: forecaster.better(f, start))
            best[first.names[0]] = first
    return _remedies(best.values(), case, run)


def _gains(forecast: Forecast) -> bool:
    """Whether it is likely to: its interval, which is shown, may still hold a loss."""
    likely = forecast.effect == "little" and (forecast.speedup or 0.0) >= 1 + NOISE
    return forecast.effect == "helps" or likely


def remedies_of(advice: Advice) -> tuple[Remedy, ...]:
    """What advice found to help, drawn: the best combination, then each change alone."""
    helping = [f for f in advice.singles if f.effect == "helps"]
    best = [advice.best] if advice.best is not None and len(advice.best.names) > 1 else []
    return _remedies([*best, *helping], advice.case, advice.case.run)


def _remedies(forecasts: Iterable[Forecast], case: ChangeCase, run: Run) -> tuple[Remedy, ...]:
    made = [_remedy(each, case, run) for each in forecasts]
    return tuple(each for each in made if each is not None)


def _remedy(forecast: Forecast, case: ChangeCase, run: Run) -> Remedy | None:
    if forecast.run is None or forecast.step_time_s is None:
        return None
    names = forecast.names
    return Remedy(
        findings=_answered(names, run),
        step_time_s=forecast.step_time_s,
        timeline=forecast.run.timeline,
        change=" + ".join(names),
        title=joined([find(name).title for name in names], " + "),
        speedup=forecast.speedup,
        low=forecast.low,
        high=forecast.high,
        diff=_diff(names, case),
        numerics=numerics_of(names),
        price=forecast.price,
    )


def _answered(names: Sequence[str], run: Run) -> tuple[int, ...]:
    """Places of the findings that one change answers; a combination answers none by itself."""
    if len(names) != 1:
        return ()
    found = run.analysis.findings
    return tuple(at for at, each in enumerate(found) if names[0] in answering().get(each.kind, ()))


def _diff(names: Sequence[str], case: ChangeCase) -> str:
    """Of the user's own code; "" where the workload is none of his."""
    return patch_of(names, case.seen).diff if case.seen is not None and case.seen.file else ""
