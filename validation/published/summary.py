"""Errors and coverage of the predicted rows, in groups."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from published.machines import is_nvidia
from published.repeats import widened

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Judged:
    """A predicted row.

    Attributes:
        id, source, hardware, model, devices: of the row.
        stack: name of its software's file.
        release: of its software; "" where it states none.
        measured_s, predicted_s, low_s, high_s: seconds a step.
        assumed: what the row does not say.
        old: predicted by an earlier state of the models than the newest of its table.
    """

    id: str
    source: str
    hardware: str
    model: str
    devices: int
    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float
    assumed: tuple[str, ...] = ()
    stack: str = ""
    release: str = ""
    old: bool = False

    @property
    def error(self) -> float:
        """Predicted over measured, less 1: above 0 is too slow."""
        return self.predicted_s / self.measured_s - 1

    @property
    def covered(self) -> bool:
        """Whether the 80 % interval holds what was measured."""
        return self.low_s <= self.measured_s <= self.high_s

    @property
    def half_width(self) -> float:
        """Half of the interval over the prediction."""
        return (self.high_s - self.low_s) / 2 / self.predicted_s


@dataclass(frozen=True, slots=True)
class Group:
    """Rows together; errors are fractions."""

    name: tuple[str, ...]
    rows: int
    median: float
    mean: float
    worst: float
    bias: float
    coverage: float
    half_width: float


def judged(
    entries: Mapping[str, Entry], spreads: Mapping[str, float] | None = None
) -> tuple[Judged, ...]:
    """The rows that were predicted, in their order.

    Args:
        entries: by id, as `predict_rows` writes them.
        spreads: half-widths in logarithms that are added to a row's interval, by id
            (`repeats.release_spreads`); none: the intervals as they were predicted.
    """
    found = _judged(entries)
    if not spreads:
        return found
    out = []
    for row in found:
        more = spreads.get(row.id, 0.0)
        low_s, high_s = widened(row.predicted_s, row.low_s, row.high_s, more, more)
        out.append(replace(row, low_s=low_s, high_s=high_s))
    return tuple(out)


def scaled(row: Judged, factor: float) -> Judged:
    """A row with its interval's half-widths, in logarithms, times a factor."""
    low_s = row.predicted_s * (row.low_s / row.predicted_s) ** factor
    high_s = row.predicted_s * (row.high_s / row.predicted_s) ** factor
    return replace(row, low_s=low_s, high_s=high_s)


def newest_state(entries: Mapping[str, Entry]) -> str:
    """The state of the models that predicted last; "" where none is known."""
    stamped = [(e.get("on", ""), e.get("state", "")) for e in entries.values()]
    return max(stamped, default=("", ""))[1]


def _judged(entries: Mapping[str, Entry]) -> tuple[Judged, ...]:
    newest = newest_state(entries)
    return tuple(
        Judged(
            id=name,
            source=e["source"],
            hardware=e["hardware"],
            model=e["model"],
            devices=e["devices"],
            measured_s=e["measured_s"],
            predicted_s=e["predicted_s"],
            low_s=e["low_s"],
            high_s=e["high_s"],
            assumed=tuple(e["assumed"]),
            stack=e["stack"],
            release=e["release"],
            old=e.get("state", "") != newest,
        )
        for name, e in entries.items()
        if "predicted_s" in e
    )


def group(name: tuple[str, ...], rows: Iterable[Judged]) -> Group:
    """Error and coverage of some rows; at least one."""
    members = list(rows)
    sizes = [abs(row.error) for row in members]
    return Group(
        name=name,
        rows=len(members),
        median=statistics.median(sizes),
        mean=statistics.fmean(sizes),
        worst=max(sizes),
        bias=statistics.median(row.error for row in members),
        coverage=sum(row.covered for row in members) / len(members),
        half_width=statistics.median(row.half_width for row in members),
    )


def groups(rows: Iterable[Judged], key: Callable[[Judged], tuple[str, ...]]) -> list[Group]:
    """The same by a key, in order of the key."""
    by_key: dict[tuple[str, ...], list[Judged]] = {}
    for row in rows:
        by_key.setdefault(key(row), []).append(row)
    return [group(name, by_key[name]) for name in sorted(by_key)]


def maker(row: Judged) -> str:
    """ "NVIDIA" or "others": each has a target of its own."""
    return "NVIDIA" if is_nvidia(row.hardware) else "others"


def not_predicted(entries: Mapping[str, Entry]) -> dict[tuple[str, str], int]:
    """Rows without a prediction by source and reason."""
    counts: dict[tuple[str, str], int] = {}
    for entry in entries.values():
        why = entry.get("why_not") or entry.get("failed")
        if why:
            counts[entry["source"], why] = counts.get((entry["source"], why), 0) + 1
    return dict(sorted(counts.items()))
