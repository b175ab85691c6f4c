"""Whole sources and whole releases held out of what is judged on the others.

The profiles hold facts alone, so that leaving a source out changes no prediction. What the other
sources tell is two figures: how wide intervals must be (`sources.conformal`), and how far all err
to one side (`sources.lean`). Both are taken here from the other sources, and the second is kept
only where it wins on sources that it has not seen. A release is left out of the spread between
releases, and its source of the factor.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from published.repeats import release_spreads
from published.rows import Row
from published.sources import conformal, lean
from published.summary import Entry, Judged, judged, scaled


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A source, or a release, with what the others tell; errors and shares are fractions.

    Attributes:
        name: of it.
        rows: how many.
        median: error as predicted.
        leaned: error less what the other sources err by together.
        factor: of the half-widths that the other sources ask for.
        covered: at that factor.
        kept: at the factor that is used, at least 1.
    """

    name: str
    rows: int
    median: float
    leaned: float
    factor: float
    covered: float
    kept: float


def by_source(rows: Sequence[Judged]) -> list[HeldOut]:
    """Every source against the others.

    Args:
        rows: with intervals that no factor has changed.
    """
    names = sorted({row.source for row in rows})
    return [_held(name, _of(rows, name), _others(rows, name)) for name in names]


def by_release(entries: Mapping[str, Entry], published: Sequence[Row]) -> list[HeldOut]:
    """Every release of the sources that have several, the newest last."""
    found = []
    for release in sorted({entry["release"] for entry in entries.values() if entry.get("release")}):
        rows = judged(entries, release_spreads(published, without=release))
        own = [row for row in rows if row.release == release]
        if own:
            found.append(_held(release, own, _others(rows, own[0].source)))
    return found


def together(held: Sequence[HeldOut], rows: Sequence[Judged]) -> tuple[float, float, float]:
    """Medians over all rows, as predicted and leaned, and the share held at the others' factors."""
    leaned = {name: lean(_others(rows, name)) for name in {row.source for row in rows}}
    plain = statistics.median(abs(row.error) for row in rows)
    moved = statistics.median(abs(_moved(row, leaned[row.source]).error) for row in rows)
    return plain, moved, sum(each.covered * each.rows for each in held) / len(rows)


def _held(name: str, own: Sequence[Judged], others: Sequence[Judged]) -> HeldOut:
    factor, lean_s = conformal(others), lean(others)
    return HeldOut(
        name=name,
        rows=len(own),
        median=statistics.median(abs(row.error) for row in own),
        leaned=statistics.median(abs(_moved(row, lean_s).error) for row in own),
        factor=factor,
        covered=statistics.fmean(scaled(row, factor).covered for row in own),
        kept=statistics.fmean(scaled(row, max(1.0, factor)).covered for row in own),
    )


def _moved(row: Judged, by: float) -> Judged:
    return replace(row, predicted_s=row.predicted_s * math.exp(-by))


def _of(rows: Sequence[Judged], name: str) -> list[Judged]:
    return [row for row in rows if row.source == name]


def _others(rows: Sequence[Judged], name: str) -> list[Judged]:
    return [row for row in rows if row.source != name]
