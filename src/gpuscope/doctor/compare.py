"""What differs between two machines: what they are, what was found, and the figures behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gpuscope.doctor.types import SEVERITIES, Diagnosis, Finding, Severity

Value = float | int | str | bool | None

NEAR = 0.05
"""Figures that differ by less than this share count as the same: readings are never equal twice."""

MOVING = (
    "temperature",
    "usage",
    "used",
    "utilization",
    "energy",
    "free",
    "load",
    "uptime",
    "_now",
    "import_s",
    "test_s",
)
"""Parts of names of figures that change from moment to moment and tell nothing of a difference."""


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """One figure that differs.

    Attributes:
        name: of the figure, with its unit.
        here, there: its value on each machine; None if that machine has none.
    """

    name: str
    here: Value
    there: Value


@dataclass(frozen=True, slots=True)
class CheckDifference:
    """One check, of one device or of the machine, whose result differs.

    Attributes:
        check: name of the check.
        device: index of the device; None for the machine.
        here, there: its worst finding on each machine; None where it found nothing to say.
        values: figures that differ.
    """

    check: str
    device: int | None
    here: Finding | None
    there: Finding | None
    values: tuple[ValueDifference, ...]

    @property
    def severity_differs(self) -> bool:
        """Whether one machine is better off."""
        return _severity(self.here) != _severity(self.there)


@dataclass(frozen=True, slots=True)
class Differences:
    """What differs.

    Attributes:
        here, there: what identifies each machine.
        identity: what identifies them and differs.
        checks: checks that differ: those of another severity first, worst first.
        same: number of checks that agree.
    """

    here: Mapping[str, str]
    there: Mapping[str, str]
    identity: tuple[ValueDifference, ...]
    checks: tuple[CheckDifference, ...]
    same: int


def differences(here: Diagnosis, there: Diagnosis) -> Differences:
    """Return what differs between two diagnoses.

    Only checks that ran on both are compared: one that was left out tells nothing.
    """
    both = {f.check for f in (*here.findings, *there.findings)} & (
        set(here.checks) & set(there.checks)
    )
    left, right = _by_place(here, both), _by_place(there, both)
    found: list[CheckDifference] = []
    same = 0
    for check, device in sorted(left.keys() | right.keys(), key=lambda k: (k[0], k[1] or 0)):
        mine, theirs = left.get((check, device), ()), right.get((check, device), ())
        values = _values(_merged(mine), _merged(theirs))
        one = CheckDifference(check, device, _worst(mine), _worst(theirs), values)
        if one.severity_differs or values:
            found.append(one)
        else:
            same += 1
    found.sort(key=lambda d: (not d.severity_differs, _rank(d), d.check))
    identity = tuple(
        ValueDifference(name, here.machine.get(name), there.machine.get(name))
        for name in {**here.machine, **there.machine}
        if here.machine.get(name) != there.machine.get(name)
    )
    return Differences(dict(here.machine), dict(there.machine), identity, tuple(found), same)


_Place = tuple[str, int | None]


def _by_place(diagnosis: Diagnosis, checks: set[str]) -> dict[_Place, tuple[Finding, ...]]:
    found: dict[_Place, tuple[Finding, ...]] = {}
    for finding in diagnosis.findings:
        if finding.check in checks:
            place = (finding.check, finding.device)
            found[place] = (*found.get(place, ()), finding)
    return found


def _merged(findings: tuple[Finding, ...]) -> dict[str, Value]:
    return {name: value for finding in findings for name, value in finding.values.items()}


def _values(here: Mapping[str, Value], there: Mapping[str, Value]) -> tuple[ValueDifference, ...]:
    return tuple(
        ValueDifference(name, here.get(name), there.get(name))
        for name in {**here, **there}
        if not any(part in name for part in MOVING) and not _alike(here.get(name), there.get(name))
    )


def _alike(a: Value, b: Value) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        if isinstance(a, int | float) and isinstance(b, int | float):
            return math.isclose(a, b, rel_tol=NEAR)
        return False
    return a == b


def _worst(findings: tuple[Finding, ...]) -> Finding | None:
    return min(findings, key=lambda f: SEVERITIES.index(f.severity), default=None)


def _severity(finding: Finding | None) -> Severity | None:
    return finding.severity if finding else None


def _rank(difference: CheckDifference) -> int:
    shown = [f for f in (difference.here, difference.there) if f is not None]
    return min(SEVERITIES.index(f.severity) for f in shown)
