"""What a plan may come to at most: "time<7d,cost<5000usd,power<6kW,memory<60GiB"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, OverLimitError
from gpuscope.hardware import Cluster
from gpuscope.planning.figures.registry import FIGURES, Figure, Measured

__all__ = [
    "Most",
    "OverLimitError",
    "broken",
    "capped",
    "excess",
    "limits_of",
    "nothing_within",
    "timed",
]


@dataclass(frozen=True, slots=True)
class Most:
    """A figure may be no more.

    Attributes:
        figure: which.
        value: the most.
        written: as the user wrote it, "time<7d".
    """

    figure: Figure
    value: float
    written: str


def limits_of(text: str | None) -> tuple[Most, ...]:
    """Limits separated by commas.

    Raises:
        UnknownNameError: no such figure.
        InvalidValueError: no limit, no unit, or two of one figure.
    """
    found: list[Most] = []
    for part in (text or "").split(",") if text is not None else ():
        match = re.fullmatch(r"\s*([\w-]+)\s*<=?\s*(.+?)\s*", part)
        if match is None:
            raise InvalidValueError(
                Text("'{part}' is no limit.", part=part.strip()),
                Text("A limit is a figure, '<', and the most of it with its unit."),
                Text('Type for example: --limit "{example}"', example="time<7d,cost<5000usd"),
            )
        figure = FIGURES.get(match[1].lower())
        each = Most(figure, figure.read(match[2]), f"{figure.name}<{match[2]}")
        twice = next((other for other in found if other.figure is figure), None)
        if twice is not None:
            raise InvalidValueError(
                Text("{first} and {second} limit the same.", first=twice.written,
                     second=each.written),
                "",
                Text("Leave one of them out."),
            )  # fmt: skip
        found.append(each)
    return tuple(found)


def capped(clusters: Iterable[Cluster], limits: Sequence[Most]) -> tuple[Cluster, ...]:
    """Clusters whose devices have no more than the limits leave of them.

    Raises:
        InvalidValueError: a figure that has a limit does not follow from what is known of them.
    """
    clusters = tuple(clusters)
    for most in limits:
        most.figure.needs(clusters)
        cap = most.figure.capped
        if cap is not None:
            clusters = tuple(cap(each, most.value) for each in clusters)
    return clusters


def _kept(limits: Sequence[Most]) -> list[Most]:
    """Those that a step keeps or breaks; others are the clusters'."""
    return [most for most in limits if most.figure.capped is None]


def timed(limits: Sequence[Most]) -> tuple[Most, ...]:
    """Those that a bound of a step's time can break."""
    return tuple(most for most in limits if most.figure.timed)


def excess(limits: Sequence[Most], each: Measured, steps: float | None) -> float:
    """How many times the most of the limit that is broken most; 0 where all are kept.

    Args:
        limits: what was asked for.
        each: a step.
        steps: of the whole; None: one.
    """
    worst = 0.0
    for most in _kept(limits):
        value = most.figure.of(each, steps or 1.0)
        worst = max(worst, float("inf") if value is None else value / most.value)
    return worst if worst > 1 else 0.0


def broken(
    limits: Sequence[Most], each: Measured, steps: float | None, *, known: bool = False
) -> Text | None:
    """The limit that is broken most, with the figure that breaks it; None where all are kept.

    Args:
        limits: what was asked for.
        each: a step.
        steps: of the whole; None: one.
        known: what is not known breaks none.
    """
    over: tuple[float, Text] | None = None
    for most in _kept(limits):
        value = most.figure.of(each, steps or 1.0)
        if value is None and not known:
            return Text("Its {figure} is not known; {limit} was asked for.",
                        figure=most.figure.title, limit=most.written)  # fmt: skip
        share = 0.0 if value is None else value / most.value
        if value is not None and share > max(1.0, over[0] if over else 1.0):
            told = Text("Its {figure} is {value}; {limit} was asked for.", figure=most.figure.title,
                        value=most.figure.shown(value), limit=most.written)  # fmt: skip
            over = share, told
    return over[1] if over else None


def nothing_within(
    what: str, limits: Sequence[Most], tried: Sequence[tuple[str, Measured]], steps: float | None
) -> OverLimitError:
    """The error to raise where every candidate breaks a limit: which, or which two together.

    Args:
        what: the model, or the code.
        limits: what was asked for.
        tried: each candidate in words, and its step.
        steps: of the whole; None: one.
    """
    title = Text("No plan for {model} keeps every limit.", model=what)
    kept = _kept(limits)
    again = Text("Ask for more, or for other, devices, or loosen: {limits}",
                 limits=", ".join(most.written for most in kept))  # fmt: skip

    def keeps(most: Most, each: Measured) -> bool:
        return excess((most,), each, steps) == 0

    for most in kept:
        if not any(keeps(most, each) for _, each in tried):
            words, nearest = min(tried, key=lambda item: excess((most,), item[1], steps))
            why = broken((most,), nearest, steps) or ""
            told = Text("The nearest is {plan}: {why}", plan=words, why=why)
            return OverLimitError(title, told, again)
    for one, other in combinations(kept, 2):
        if not any(keeps(one, each) and keeps(other, each) for _, each in tried):
            return OverLimitError(title, _contradict(one, other, tried, steps), again)
    words, nearest = min(tried, key=lambda item: excess(kept, item[1], steps))
    why = broken(kept, nearest, steps) or ""
    return OverLimitError(title, Text("The nearest is {plan}: {why}", plan=words, why=why), again)


def _contradict(
    one: Most, other: Most, tried: Sequence[tuple[str, Measured]], steps: float | None
) -> Text:
    """What the one costs of the other, either way."""

    def least(of: Most, within: Most) -> float:
        kept = [each for _, each in tried if excess((within,), each, steps) == 0]
        values = [of.figure.of(each, steps or 1.0) for each in kept]
        return min(value for value in values if value is not None)

    return Text(
        "{first} and {second} contradict each other: within {first} {other} is {much} at least, "
        "within {second} {one} is {more}.",
        first=one.written,
        second=other.written,
        one=one.figure.title,
        other=other.figure.title,
        much=other.figure.shown(least(other, one)),
        more=one.figure.shown(least(one, other)),
    )
