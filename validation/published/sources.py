"""How far a whole source lies off, which kernels' intervals do not hold: what nobody read of it.

A source is measured with one stack, whose habits (what overlaps, what is fused, what its launcher
sets) are known only in part, so its rows err together. How much is told by the other sources: a
source's own rows never widen or narrow its own interval, so the figure is that of a source which
nobody has read. One with a single row counts like one with a hundred.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import NormalDist, fmean, variance

from published.summary import Judged

_EIGHTY = NormalDist().inv_cdf(0.9)
"""Standard deviations to either side that hold 80 %."""


def source_spreads(rows: Iterable[Judged]) -> Mapping[str, float]:
    """Half-width in logarithms of the 80 % interval of a source's common error, by source.

    Each is 1.28 times the root of the mean, over all other sources, of the square of their mean log
    error, less what rows that err on their own would give it (their variance over their number).

    Args:
        rows: predicted, of any number of sources. Of a single source nothing is known: 0.
    """
    logs: dict[str, list[float]] = {}
    for row in rows:
        logs.setdefault(row.source, []).append(math.log(row.measured_s / row.predicted_s))
    common = {source: _common(errors) for source, errors in logs.items()}
    found = {}
    for source in common:
        others = [square for other, square in common.items() if other != source]
        found[source] = _EIGHTY * math.sqrt(max(0.0, fmean(others))) if others else 0.0
    return found


def _common(errors: list[float]) -> float:
    own = variance(errors) / len(errors) if len(errors) > 1 else 0.0
    return fmean(errors) ** 2 - own
