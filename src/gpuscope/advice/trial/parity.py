"""Whether two variants compute the same, from what was observed of both. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from statistics import fmean, stdev

from gpuscope.advice.results import Compared, Parity
from gpuscope.advice.trial.observed import Observed, Value
from gpuscope.advice.trial.tolerances import MARGIN, MOST, MOST_SPREAD, SPREAD, Allowed, allowed
from gpuscope.advice.types import Numerics
from gpuscope.document.text import Text, sentences

__all__ = ["OTHER_DRAWS", "distribution", "judge", "varies"]

DROPOUT_OFF = Text("Dropout was switched off in both for the comparison.")
LOSS_ONLY = Text("Only the course of the loss is compared: it is another recipe.")
NOTHING = Text("No loss, gradient, output or result was seen in both.")
FEW_HIDDEN = Text("Not everything can be seen in the changed code (it replays a recorded step).")
SPREAD_NOTE = Text(
    "The original's own results vary from run to run: means of several runs are compared."
)

OTHER_DRAWS = Text(
    "Other loader workers draw other random numbers: means over several seeds are compared."
)


def judge(
    numerics: Numerics,
    base: Observed,
    other: Observed,
    *,
    again: Observed | None = None,
    moved: Observed | None = None,
) -> Parity:
    """Hold a variant's results against the original's.

    Args:
        numerics: what the changes may do.
        base: the original.
        other: the variant, from the same seed.
        again: the original once more, same seed: what varies by itself is allowed.
        moved: the original with weights off by a unit roundoff (see `tolerances`).
    """
    names = ("loss",) if numerics == "recipe" and base.seen("loss") else _names(base)
    shared = [name for name in names if other.seen(name)]
    steps = _fed_alike(base, other)
    if _overflows(base, other, shared):
        return Parity("overflow", numerics, (), _note(base, ()))
    _, limits = allowed(numerics, base.precision)
    compared = [
        each
        for name in shared
        for each in _compared(
            name,
            base,
            _cut(other, steps),
            limits,
            _cut(again, _fed_alike(base, again)) if again else None,
            _cut(moved, _fed_alike(base, moved)) if moved else None,
            numerics,
        )
    ]
    notes = []
    if steps is not None:
        notes.append(_parted(steps))
    if numerics == "recipe":
        notes.append(LOSS_ONLY)
    if len(shared) < len(names) and shared:
        notes.append(FEW_HIDDEN)
    if not compared:
        return Parity("unchecked", numerics, (), NOTHING)
    good = all(each.agrees for each in compared)
    return Parity("agrees" if good else "differs", numerics, tuple(compared), _note(base, notes))


def varies(base: Observed, again: Observed) -> bool:
    """Whether the original differs from itself by more than another order of rounding does."""
    return judge("reordered", base, again).verdict != "agrees"


def distribution(
    numerics: Numerics,
    bases: Sequence[Observed],
    others: Sequence[Observed],
    note: Text = SPREAD_NOTE,
) -> Parity:
    """Compare by spread: each quantity's mean over the steps, over several runs.

    Args:
        numerics: what the changes may do.
        bases, others: runs of the original and of the variant.
        note: why it is done.

    Agrees where the means differ by less than the tolerance, or by less than `SPREAD` standard
    errors of that difference; and where the first step's loss and gradient, before any update,
    are held to the first step's tolerance likewise: what a model does with small differences
    later, it does not do yet.
    """
    _, limits = allowed(numerics, bases[0].precision)
    names = [
        n
        for n in ("loss", "output", "result", "gradient norm")
        if all(each.seen(n) for each in (*bases, *others))
    ]
    if any(_overflows(bases[0], each, names) for each in others):
        return Parity("overflow", numerics, (), note)
    compared: list[Compared] = []
    for name in ("loss", "gradient norm", "output"):
        compared += _first_step(name, bases, others, limits)
    for name in names:
        ours, theirs = [_mean(b, name) for b in bases], [_mean(o, name) for o in others]
        scale = max(abs(fmean(ours)), 1e-12)
        error = math.sqrt(_variance(ours) / len(ours) + _variance(theirs) / len(theirs))
        tolerance = max(_later(limits, name), min(MOST_SPREAD, SPREAD * error / scale))
        difference = abs(fmean(theirs) - fmean(ours)) / scale
        compared.append(Compared(f"mean {name}", difference, tolerance, len(others)))
    if not compared:
        return Parity("unchecked", numerics, (), NOTHING)
    good = all(each.agrees for each in compared)
    return Parity("distribution" if good else "differs", numerics, tuple(compared), note)


def _first_step(
    name: str, bases: Sequence[Observed], others: Sequence[Observed], limits: Allowed
) -> list[Compared]:
    """The first step's quantity: the farthest off its original, against how far originals are."""
    firsts = [(each.quantities.get(name) or (None,))[0] for each in (*bases, *others)]
    if any(first is None for first in firsts):
        return []
    ours, theirs = firsts[: len(bases)], firsts[len(bases) :]
    own = max((_difference(ours[0], each, 0.0, False) for each in ours[1:]), default=0.0)
    off = min(_difference(one, two, 0.0, False) for one in ours for two in theirs)
    tight = {"loss": limits.loss, "gradient norm": limits.gradient}.get(name, limits.output)
    tolerance = max(tight, min(MOST, MARGIN * own))
    return [Compared(f"{name}, first step", off, tolerance, len(others))]


def _fed_alike(base: Observed, other: Observed) -> int | None:
    """How many first steps a model was fed the same tokens in both; None for all of them.

    A token that is chosen by a hair's breadth falls the other way for a rounding, and from there on
    another text is written. One step is compared at least. Trainings are not fed what they gave.
    """
    ours, theirs = base.quantities.get("fed", ()), other.quantities.get("fed", ())
    alike = [
        one is None or two is None or one == two for one, two in zip(ours, theirs, strict=False)
    ]
    return max(1, alike.index(False)) if False in alike else None


def _cut(observed: Observed, steps: int | None) -> Observed:
    """Of its outputs and results only the first steps."""
    if steps is None:
        return observed
    kept = {
        name: values[:steps] if name in ("output", "result") else values
        for name, values in observed.quantities.items()
    }
    return replace(observed, quantities=kept)


def _parted(steps: int) -> Text:
    return Text(
        "Tokens parted after step {steps} by rounding: the steps before are compared.", steps=steps
    )


def _names(base: Observed) -> tuple[str, ...]:
    """What to compare: returned values only where nothing else was seen."""
    seen = [n for n in ("loss", "gradient norm", "output", "update") if base.seen(n)]
    return tuple(seen) if seen and seen != ["update"] else (*seen, "result")


def _overflows(base: Observed, other: Observed, names: Sequence[str]) -> bool:
    for name in names:
        for ours, theirs in zip(base.quantities[name], other.quantities[name], strict=False):
            if ours is None or theirs is None:
                continue
            if all(map(math.isfinite, ours)) and not all(map(math.isfinite, theirs)):
                return True
    return False


def _compared(
    name: str,
    base: Observed,
    other: Observed,
    limits: Allowed,
    again: Observed | None,
    moved: Observed | None,
    numerics: Numerics,
) -> list[Compared]:
    """The first step, and the later ones, which may drift further."""
    steps = len(other.quantities.get(name, ()))
    differences = _differences(name, base, other, lenient=numerics == "fp16")[: steps or None]
    slack = [0.0] * len(differences)
    for witness, factor in ((again, MARGIN), (moved, MARGIN)):
        if witness is not None and witness.seen(name):
            own = _differences(name, base, witness)[: len(witness.quantities.get(name, ()))]
            slack = [
                max(s, min(MOST, factor * o)) for s, o in zip_longest(slack, own, fillvalue=0.0)
            ]
    if name == "update":
        return [_one("update of the parameters", differences, slack, limits.update)]
    if name in ("output", "result"):
        return [_one(name, differences, slack, limits.output)]
    first = limits.loss if name == "loss" else limits.gradient
    found = [_one(f"{name}, first step", differences[:1], slack[:1], first)]
    if len(differences) > 1:
        later = _later(limits, name)
        found.append(_one(f"{name}, later steps", differences[1:], slack[1:], later))
    return found


def _one(
    what: str, differences: Sequence[float], slack: Sequence[float], tolerance: float
) -> Compared:
    """The step that is furthest beyond what is allowed for it."""
    pairs = [(d, max(tolerance, s)) for d, s in zip(differences, slack, strict=False)]
    worst = max(pairs, key=lambda pair: pair[0] / pair[1] if not math.isnan(pair[0]) else math.inf)
    return Compared(what, worst[0], worst[1], len(pairs))


def _later(limits: Allowed, name: str) -> float:
    return {"loss": limits.loss_later, "gradient norm": limits.gradient_later}.get(
        name, limits.output
    )


def _differences(name: str, base: Observed, other: Observed, lenient: bool = False) -> list[float]:
    """Relative difference of every step; infinite where one has what the other lacks.

    Args:
        lenient: a step that the variant lacks is passed over: a gradient scaler skips its first
            steps until it has found its scale.
    """
    ours, theirs = base.quantities.get(name, ()), other.quantities.get(name, ())
    sizes = [_size(value) for value in ours if value is not None]
    least = 0.05 * max((s for s in sizes if math.isfinite(s)), default=0.0)
    return [_difference(one, two, least, lenient) for one, two in zip_longest(ours, theirs)]


def _difference(one: Value, two: Value, least: float, lenient: bool) -> float:
    if one is None and two is None:
        return 0.0
    if one is None or two is None:
        return 0.0 if lenient else math.inf
    if len(one) != len(two):
        return math.inf
    pairs = list(zip(one, two, strict=True))
    if all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs):
        return 0.0
    distance = math.sqrt(sum((a - b) ** 2 for a, b in pairs))
    scale = max(_size(one), least)
    return distance / scale if scale > 0 else math.inf


def _size(value: Sequence[float]) -> float:
    return math.sqrt(sum(x * x for x in value))


def _mean(observed: Observed, name: str) -> float:
    values = [v for v in observed.quantities[name][1:] if v is not None]
    values = values or [v for v in observed.quantities[name] if v is not None]
    return fmean(_size(v) if len(v) > 1 else v[0] for v in values)


def _variance(values: Sequence[float]) -> float:
    return stdev(values) ** 2 if len(values) > 1 else 0.0


def _note(base: Observed, notes: Sequence[Text]) -> Text | None:
    return sentences(*notes, DROPOUT_OFF if base.dropout else None) or None
