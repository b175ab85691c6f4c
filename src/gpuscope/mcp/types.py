"""What tools return: short, typed, every figure with its unit, its interval and its origin.

Dataclasses, so that a client gets their JSON Schema with the list of tools; without slots, which
`mcp` would take for the fields' defaults.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes:
        value: in the unit; None: not available.
        unit: "s", "bytes", "J", "1", ...
        low, high: 80 % interval of a prediction, confidence interval of a measurement; else None.
        origin: measured, calibrated, datasheet, estimated, ...; computed where it follows from
            others; "" where the value is not available.
        shown: as people read it.
    """

    value: float | None
    unit: str
    low: float | None
    high: float | None
    origin: str
    shown: str


@dataclass(frozen=True)
class Found:
    """A finding: what costs time, and what to do.

    Attributes:
        kind: a stable word.
        title, hint: sentences.
        max_gain: what it could save at most.
        lines: of the user's source.
    """

    kind: str
    title: str
    hint: str
    max_gain: Figure
    lines: tuple[str, ...]


@dataclass(frozen=True)
class RunDigest:
    """A predicted or measured step, or a recording.

    Attributes:
        id: names it in `details`, `compare` and the resources.
        name, target, origin: workload, device, "predicted" or "measured".
        figures: by name.
        account: where the step goes, from the best possible time on; adds up to it.
        findings: the largest first, five at most.
        assumptions: what had to be assumed.
        more: paths that `details` takes.
    """

    id: str
    name: str
    target: str
    origin: str
    figures: dict[str, Figure]
    account: dict[str, Figure]
    findings: tuple[Found, ...]
    assumptions: tuple[str, ...]
    more: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One row of a comparison: `label` took `a`, takes `b`, because of `reason`."""

    label: str
    a: Figure
    b: Figure
    reason: str


@dataclass(frozen=True)
class ComparisonDigest:
    """Two runs side by side; rows by operator, the largest difference first, eight at most."""

    id: str
    summary: str
    speedup: Figure
    difference: Figure
    rows: tuple[Row, ...]
    more: tuple[str, ...]


@dataclass(frozen=True)
class ChangeDigest:
    """Changes predicted or tried together.

    Attributes:
        names: of the changes; `optimize` takes them.
        effect: helps, little, hurts, does not fit, fails; of a trial its outcome.
        speedup: over the code as it is.
        why: one sentence.
    """

    names: tuple[str, ...]
    effect: str
    speedup: Figure
    why: str


@dataclass(frozen=True)
class AdviceDigest:
    """What to change: `path` builds the best combination up, `singles` are alone, best first."""

    id: str
    step_time: Figure
    path: tuple[ChangeDigest, ...]
    singles: tuple[ChangeDigest, ...]
    more: tuple[str, ...]


@dataclass(frozen=True)
class LadderDigest:
    """What was tried for real: what is kept, what it gains, and the patch that makes it so."""

    id: str
    device: str
    kept: tuple[str, ...]
    speedup: Figure
    trials: tuple[ChangeDigest, ...]
    patch: str
    notes: tuple[str, ...]
    more: tuple[str, ...]


@dataclass(frozen=True)
class Told:
    """An explanation in its first sentences; `more` are the paths of its sections."""

    id: str
    title: str
    summary: tuple[str, ...]
    more: tuple[str, ...]


@dataclass(frozen=True)
class PlanDigest:
    """A choice of devices and parallelism; `ties` cannot be told from the best."""

    id: str
    best: str
    figures: dict[str, Figure]
    ties: tuple[str, ...]
    candidates: int
    more: tuple[str, ...]


@dataclass(frozen=True)
class Health:
    """One finding of `doctor`."""

    check: str
    severity: str
    title: str
    fix: str


@dataclass(frozen=True)
class HealthDigest:
    """Whether this machine is well: what is wrong, worst first, ten at most."""

    id: str
    worst: str
    findings: tuple[Health, ...]
    more: tuple[str, ...]


@dataclass(frozen=True)
class ServingDigest:
    """How an engine will serve a model, or how a server does: one entry a load."""

    id: str
    loads: tuple[dict[str, Figure], ...]
    notes: tuple[str, ...]
    more: tuple[str, ...]


@dataclass(frozen=True)
class Details:
    """A part of a result.

    Attributes:
        id, path: what was asked for.
        keys: what is below the path, with how much: "operators (41 rows)"; () at its end.
        value: the part itself, as JSON text; "" where only `keys` are told.
        left: rows that were left out.
    """

    id: str
    path: str
    keys: tuple[str, ...]
    value: str
    left: int
