"""The rungs of a ladder: an unbroken way from the code as it was to what is kept.

Each trial holds one set of changes against another, so trials are the edges of a graph between
sets. The rungs are the way from the original to the best with the most single gains. Where trials
ended before the top, the last rung is what is left of the whole gain. So the gains multiply to the
end, and the step after each is the original's, divided by the gains until there: a step's own time
was measured at another hour, at another pace of the machine, and cannot be held against the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, prod, sqrt

from gpuscope.advice.results import Ladder, Trial
from gpuscope.advice.trial.paired_gain import Gain

__all__ = ["Rung", "best_step_s", "product", "rungs", "scatters"]

Set = frozenset[str]

_NO_EDGE = ("parity", "crashed", "short", "hung", "memory", "impossible", "skipped")


@dataclass(frozen=True, slots=True)
class Rung:
    """One step up.

    Attributes:
        trial: that measured it; None of a rung that is what is left of the whole gain.
        names: what is made after it.
        added, removed: against the rung before.
        expected: predicted gain over the rung before; None where that is not known.
        speedup, low, high: the gain over the rung before, with its 95 % interval.
        step_s: after it: the original's, divided by the gains until here.
    """

    trial: Trial | None
    names: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    expected: float | None
    speedup: float
    low: float | None
    high: float | None
    step_s: float


def rungs(ladder: Ladder) -> tuple[Rung, ...]:
    """The way to what is kept; () where nothing is, or no trial led there."""
    if not ladder.best:
        return ()
    edges = [t for t in ladder.trials if _is_edge(t)]
    top = frozenset(ladder.best)
    whole = _longest(edges, top)
    begun = _longest_below(edges, top)
    if ladder.speedup and len(begun) + 1 > len(whole) and (begun or not whole):
        return _with_rest(ladder, begun)
    return _rungs(ladder, whole)


def product(found: Sequence[Rung]) -> float:
    """All gains together."""
    return prod(rung.speedup for rung in found)


def scatters(ladder: Ladder, found: Sequence[Rung]) -> bool:
    """Whether the rungs' product and the whole gain, measured by itself, are farther apart than
    their intervals let expect."""
    if not ladder.speedup or ladder.low is None or ladder.high is None:
        return False
    own = [(r.low, r.speedup, r.high) for r in found]
    spread = _spread([*own, (ladder.low, ladder.speedup, ladder.high)])
    return spread is not None and abs(log(product(found) / ladder.speedup)) > spread


def best_step_s(ladder: Ladder) -> float | None:
    """The step of what is kept, at the pace that the original was measured at; None where the gain
    is not known."""
    return ladder.baseline.step_s / ladder.speedup if ladder.best and ladder.speedup else None


# -- the way up ------------------------------------------------------------------------------------


def _is_edge(trial: Trial) -> bool:
    measured = trial.speedup is not None and trial.outcome not in _NO_EDGE
    return measured and trial.purpose != "patch"


def _longest(edges: Sequence[Trial], top: Set) -> list[Trial]:
    """The way from the original to a set that takes the most trials; [] where there is none."""
    best: list[Trial] = []

    def climb(at: Set, seen: frozenset[Set], way: list[Trial]) -> None:
        nonlocal best
        if at == top:
            if len(way) > len(best):
                best = way
            return
        for trial in _from(edges, at):
            after = frozenset(trial.names)
            if after not in seen:
                climb(after, seen | {after}, [*way, trial])

    climb(frozenset(), frozenset({frozenset()}), [])
    return best


def _longest_below(edges: Sequence[Trial], top: Set) -> list[Trial]:
    """The longest way from the original that only adds what is kept, and ends below the top."""
    best: list[Trial] = []
    growing = [t for t in edges if set(t.against) < set(t.names) < top]

    def climb(at: Set, way: list[Trial]) -> None:
        nonlocal best
        if len(way) > len(best):
            best = way
        for trial in _from(growing, at):
            climb(frozenset(trial.names), [*way, trial])

    climb(frozenset(), [])
    return best


def _from(edges: Sequence[Trial], at: Set) -> list[Trial]:
    """The trials against a set, of several of one pair the last."""
    found = {frozenset(t.names): t for t in edges if frozenset(t.against) == at}
    return list(found.values())


def _rungs(ladder: Ladder, way: Sequence[Trial]) -> tuple[Rung, ...]:
    found: list[Rung] = []
    step_s = ladder.baseline.step_s
    for trial in way:
        assert trial.speedup is not None
        step_s /= trial.speedup
        added = tuple(n for n in trial.names if n not in trial.against)
        removed = tuple(n for n in trial.against if n not in trial.names)
        found.append(
            Rung(
                trial,
                trial.names,
                added,
                removed,
                trial.expected,
                trial.speedup,
                trial.low,
                trial.high,
                step_s,
            )
        )
    return tuple(found)


def _with_rest(ladder: Ladder, way: Sequence[Trial]) -> tuple[Rung, ...]:
    """The rungs that were measured one by one, and what is left of the whole gain."""
    found = _rungs(ladder, way)
    assert ladder.speedup is not None
    done = found[-1].names if found else ()
    gain = ladder.speedup / product(found)
    whole = (ladder.low, ladder.speedup, ladder.high)
    spread = _spread([*((r.low, r.speedup, r.high) for r in found), whole])
    rest = Rung(
        None,
        ladder.best,
        tuple(n for n in ladder.best if n not in done),
        (),
        _expected(ladder, done),
        gain,
        gain / exp(spread) if spread is not None else None,
        gain * exp(spread) if spread is not None else None,
        ladder.baseline.step_s / ladder.speedup,
    )
    return (*found, rest)


def _expected(ladder: Ladder, before: Sequence[str]) -> float | None:
    """What was predicted of the best over a set, from both sets' own forecasts."""
    after = _forecast(ladder, ladder.best)
    under = _forecast(ladder, before) if before else 1.0
    return after / under if after and under else None


def _forecast(ladder: Ladder, names: Sequence[str]) -> float | None:
    told = [
        t.forecast.speedup
        for t in ladder.trials
        if t.forecast is not None and t.forecast.speedup and set(t.forecast.names) == set(names)
    ]
    return told[-1] if told else None


def _spread(gains: Sequence[Gain | tuple[float | None, float, float | None]]) -> float | None:
    """Half width of the interval of a product or quotient of independent gains, as a logarithm."""
    total = 0.0
    for low, _, high in gains:
        if not low or not high:
            return None
        total += (log(high / low) / 2) ** 2
    return sqrt(total)
