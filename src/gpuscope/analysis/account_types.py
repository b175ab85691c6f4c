"""The account of a step: from the best time that its work allows to the time that it took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

TermKey = Literal[
    "peak",
    "clock",
    "library",
    "tails",
    "unknown",
    "pointwise",
    "transfers",
    "communication",
    "waiting",
    "bubble",
    "idle",
]

TERMS: tuple[TermKey, ...] = (
    "peak",
    "clock",
    "library",
    "tails",
    "unknown",
    "pointwise",
    "transfers",
    "communication",
    "waiting",
    "bubble",
    "idle",
)
"""The terms of an account, in the order in which they lead from the best time to the step."""


@dataclass(frozen=True, slots=True)
class AccountTerm:
    """One term of an account.

    Attributes:
        key: which one; `gpuscope.analysis.account` defines each.
        time_s: seconds of the step; None where the run does not tell. What it would hold is then
            in a neighbour: a clock that is not known in "library", kernels without a model in
            "unknown", waiting that is not told apart in "communication".
        from_s: where its stretch begins: the sum of the terms before it.
    """

    key: TermKey
    time_s: float | None
    from_s: float


@dataclass(frozen=True, slots=True)
class Account:
    """The distance between a step and its best possible time, term by term.

    Attributes:
        step_s: the step; the terms that are known add up to it.
        best_s: the first term, "peak"; None where the run does not tell what its work is.
        terms: all of `TERMS`, in their order.
        rank: whose step it is.
        explained_s: how much of the distance at least one finding speaks for; None without `best_s`
            and where there is no distance.
        by_group: what each kernel group (`analysis.grouping.group_key`) has of the terms, in
            seconds of the step; "" are events of which no kernel is known. Waiting and bubble are
            in "communication"; without what the device does not do (idle).
    """

    step_s: float
    best_s: float | None
    terms: tuple[AccountTerm, ...]
    rank: int = 0
    explained_s: float | None = None
    by_group: Mapping[str, Mapping[TermKey, float]] = field(default_factory=dict)

    @property
    def distance_s(self) -> float | None:
        """What the step takes beyond its best possible time."""
        return None if self.best_s is None else self.step_s - self.best_s

    def time_s(self, key: TermKey) -> float:
        """Return the seconds of a term; 0 where it is not known."""
        return next(term.time_s or 0.0 for term in self.terms if term.key == key)
