"""What a claim is, how it is checked, and what comes out.

A claim is somebody's statement in our words, with the value that it states. Its check computes the
true figure (from the catalogue, a formula, a cost model or a recorded measurement) and compares;
the verdict is the outcome of that comparison and is written nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, ParamSpec

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

P = ParamSpec("P")

Judgement = Literal["wrong", "imprecise", "depends", "right", "cannot say"]

JUDGEMENTS: tuple[Judgement, ...] = ("wrong", "imprecise", "depends", "right", "cannot say")
"""In the order in which a reader wants them."""

Method = Literal["catalogue", "formula", "model", "recorded measurement", "none"]

METHODS: tuple[Method, ...] = ("catalogue", "formula", "recorded measurement", "model", "none")
"""From the plainest to the one with most behind it; a figure made of several takes the last."""

Claimed = float | str | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A true value and how we know it.

    Attributes:
        value: in SI units (bytes, seconds, FLOP/s, ...).
        how: where it comes from in one line, e.g. "NVIDIA H100 SXM5, power limit: 700 W
            (datasheet)"; of a formula the formula, without its result.
        label: a short name, to tell variants apart.
        method: how it was found.
        sources: documents behind it.
        unit: of a formula: what its result is shown in; None for everything else.
        given: of a formula: what its names stand for.
    """

    value: float
    how: Text
    label: Text
    method: Method
    sources: tuple[str, ...] = ()
    unit: str | None = None
    given: tuple[tuple[str, Figure], ...] = ()


Source = Callable[[], Figure]
"""Computes a figure when it is asked for."""


FIGURES: dict[str, Callable[..., Figure]] = {}
"""Functions that compute figures, by the name that claims call them by."""


def figure(compute: Callable[P, Figure]) -> Callable[P, Figure]:
    """Let claims name a function; its arguments are what a table can hold."""
    FIGURES[compute.__name__] = compute
    return compute


class NoFigureError(UnsupportedError):
    """A figure that no source states: its claim cannot be judged.

    Args:
        words: what is missing.
    """

    def __init__(self, words: Text) -> None:
        super().__init__(words)
        self.words = words


@dataclass(frozen=True, slots=True)
class Topic:
    """A group of claims: a stable word and its name."""

    key: str
    name: Text


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found.

    Attributes:
        verdict: right (within 2 % or the claim's own rounding), imprecise (within 25 %, or true of
            some variants only), wrong, depends (true values lie on both sides, according to what
            the claim leaves open), cannot say.
        truth: the true figure in words; None where it cannot be computed.
        evidence: how we know, or why we do not; a line for each condition, formula and figure.
        method: how it was found; "none" where nothing was computed.
        sources: documents behind it.
        values: the true values in the claim's unit; () where it is not about a number.
    """

    verdict: Judgement
    truth: Text | None
    evidence: Text
    method: Method
    sources: tuple[str, ...] = ()
    values: tuple[float, ...] = ()


Check = Callable[["Claim"], Verdict]


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement.

    Attributes:
        id: stable name, e.g. "A-005".
        topic: its group.
        words: the statement, in our words.
        claimed: the value that it states, in `unit`; several for a range, text for a statement
            without a number.
        unit: a key of `gpuscope.learn.claims.scales.SCALES`.
        check: computes the verdict.
    """

    id: str
    topic: Topic
    words: Text
    claimed: Claimed
    unit: str
    check: Check

    @property
    def numbers(self) -> tuple[float, ...]:
        """The stated values; () for a statement without a number."""
        if isinstance(self.claimed, str):
            return ()
        return self.claimed if isinstance(self.claimed, tuple) else (self.claimed,)

    def verdict(self) -> Verdict:
        """Run the check; what no source states makes it "cannot say"."""
        try:
            return self.check(self)
        except NoFigureError as error:
            return Verdict("cannot say", None, error.words, "none")


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim with its verdict."""

    claim: Claim
    verdict: Verdict
