"""How wide an interval must be for a source that nobody has read: told by the other sources.

A source is measured with one stack, whose habits are known only in part, so its rows err together
and count as one. The intervals' half-widths (kernels, what a row does not state, releases) are
multiplied by one factor, the conformal quantile of the other sources: the least at which the mean,
over those sources, of the share of their rows that are held reaches 80 % (1 + 1/n) of n sources
(Dunn, Wasserman, Ramdas 2022, arXiv:1809.07441: pooled distributions of groups). A source's own
rows never widen or narrow its own intervals, and one with a single row counts like one with a
hundred. Half of what these sources published was read while the profiles were written, so that they
err less than sources will that nobody read: the factor is never below 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from published.summary import Judged

SHARE = 0.8
"""What an interval is to hold."""


def factors(rows: Iterable[Judged]) -> Mapping[str, float]:
    """Factor of the half-widths in logarithms by source, from all other sources.

    Args:
        rows: predicted, of any number of sources. Of a single source nothing is known: 1.
    """
    known = tuple(rows)
    names = dict.fromkeys(row.source for row in known)
    others = {name: [row for row in known if row.source != name] for name in names}
    return {name: max(1.0, conformal(rows)) for name, rows in others.items()}


def conformal(rows: Sequence[Judged]) -> float:
    """The factor that these sources' rows ask for; 1 where there are none."""
    counts = Counter(row.source for row in rows)
    if not counts:
        return 1.0
    level = min(1.0, SHARE * (1 + 1 / len(counts)))
    held = 0.0
    for each in sorted(rows, key=score):
        held += 1 / counts[each.source] / len(counts)
        if held >= level - 1e-9:
            return score(each)
    return score(max(rows, key=score))


def score(row: Judged) -> float:
    """Half-widths that a measurement lies from its prediction, in logarithms."""
    off = math.log(row.measured_s / row.predicted_s)
    edge = row.high_s if off > 0 else row.low_s
    return off / math.log(edge / row.predicted_s)


def held_further(rows: Sequence[Judged], times: float) -> float:
    """Share of the rows that their intervals would hold were every error so many times as far."""
    return fmean(score(row) * times <= 1 for row in rows) if rows else 1.0


def lean(rows: Sequence[Judged]) -> float:
    """What rows of several sources err by together, each source counted once, in logarithms."""
    by_source: dict[str, list[float]] = {}
    for row in rows:
        error = math.log(row.predicted_s / row.measured_s)
        by_source.setdefault(row.source, []).append(error)
    return fmean(fmean(errors) for errors in by_source.values()) if by_source else 0.0
