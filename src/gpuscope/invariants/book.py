"""The book that invariants are entered in: how many figures were compared, and which were wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpuscope.document.quantities import (
    ByteRate,
    Bytes,
    Count,
    FlopRate,
    Flops,
    Joules,
    Number,
    Quantity,
    Seconds,
    Share,
    Usd,
    Watts,
)
from gpuscope.document.text import Text

SUMS = 1e-9
"""Relative difference up to which two figures are the same: a nanosecond in a second."""

GRAIN_S = 1e-9
"""Grain of a timeline: two figures that round to it apart may differ by one."""

Value = Quantity | Text | str

_QUANTITIES: dict[str, type[Quantity]] = {
    "s": Seconds,
    "bytes": Bytes,
    "bytes/s": ByteRate,
    "flop": Flops,
    "flop/s": FlopRate,
    "share": Share,
    "count": Count,
    "W": Watts,
    "J": Joules,
    "usd": Usd,
}


@dataclass(frozen=True, slots=True)
class Violation:
    """One figure or sentence that another one contradicts.

    Attributes:
        rule: name of the invariant's family.
        what: which figure.
        found: what it is.
        wanted: what it would have to be, or may be at most.
        relation: "=", "≤" or "≥"; "" where `wanted` is a sentence.
    """

    rule: str
    what: Text
    found: Value
    wanted: Value
    relation: str = "="

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}: {self.found}, {self.relation} {self.wanted}"


@dataclass(frozen=True, slots=True)
class Checked:
    """Outcome of a check.

    Attributes:
        count: how many comparisons were made.
        violations: those that failed.
    """

    count: int
    violations: tuple[Violation, ...]


@dataclass(slots=True)
class Book:
    """Compares figures and keeps what is wrong.

    Attributes:
        rule: the family that is entered at present.
        count: comparisons so far.
        violations: those that failed.
    """

    rule: str = ""
    count: int = 0
    violations: list[Violation] = field(default_factory=list)

    def same(
        self,
        what: Text,
        found: float | None,
        wanted: float | None,
        unit: str = "s",
        *,
        within: float = SUMS,
        grain: float | None = None,
    ) -> None:
        """Two places say the same quantity; None is equal to None alone.

        Args:
            what: the quantity and the places.
            found, wanted: what they say.
            unit: of both, as `Quantity.unit`.
            within: relative difference that rounding explains.
            grain: absolute difference that rounding explains; a nanosecond for times.
        """
        self.count += 1
        found, wanted = _known(found), _known(wanted)
        if found is None and wanted is None:
            return
        if found is not None and wanted is not None:
            small = GRAIN_S if grain is None and unit == "s" else grain or 0.0
            if math.isclose(found, wanted, rel_tol=within, abs_tol=small * 1.01):
                return
        self._wrong(what, _shown(found, wanted, unit), _shown(wanted, found, unit), "=")

    def sums(
        self, what: Text, parts: Iterable[float], whole: float | None, unit: str = "s"
    ) -> None:
        """Parts add up to their whole, to 1e-9."""
        listed = list(parts)
        self.same(what, math.fsum(listed), whole, unit, grain=0.0 if unit != "s" else None)

    def at_most(
        self,
        what: Text,
        found: float | None,
        limit: float | None,
        unit: str = "s",
        *,
        within: float = SUMS,
    ) -> None:
        """A figure does not exceed its limit; nothing to compare where either is unknown."""
        if found is None or limit is None or math.isnan(found) or math.isnan(limit):
            return
        self.count += 1
        small = GRAIN_S if unit == "s" else 1e-12
        if not found <= limit * (1.0 + within) + small:
            self._wrong(what, _shown(found, limit, unit), _shown(limit, found, unit), "≤")

    def holds(self, what: Text, true: bool, found: Value, wanted: Value) -> None:
        """A statement is true; else `found` stands where `wanted` should."""
        self.count += 1
        if not true:
            self._wrong(what, found, wanted, "")

    def _wrong(self, what: Text, found: Value, wanted: Value, relation: str) -> None:
        self.violations.append(Violation(self.rule, what, found, wanted, relation))


def _known(value: float | None) -> float | None:
    """NaN stands for an unknown time where a field cannot be None."""
    return None if value is None or math.isnan(value) else value


def _shown(value: float | None, other: float | None, unit: str) -> Quantity:
    """A figure, with more digits where it would read like the other one."""
    kind = _QUANTITIES.get(unit)
    short = kind(value) if kind is not None else Number(value, ",.6g")
    if kind is None or value is None or other is None or str(short) != str(kind(other)):
        return short
    return Number(value, ".12g")
