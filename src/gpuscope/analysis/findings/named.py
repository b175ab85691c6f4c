"""Names for the kernels that a finding is about."""

from __future__ import annotations

from operator import attrgetter

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.columns import take
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.grouping import label


def take_grid(facts: Facts) -> npt.NDArray[np.float64]:
    """Return the blocks that each device event was launched with; 0 where not recorded.

    A kernel without a known block shape says 1 block; those do not count.
    """
    kernels = facts.rows.kernels.kernels
    grid = np.fromiter(map(attrgetter("grid"), kernels), np.float64, len(kernels))
    waves = facts.rows.kernels.waves
    return take(np.where(waves > 0, grid, 0.0), facts.rows.work.kernel)


def largest(facts: Facts, loss: npt.NDArray[np.float64]) -> tuple[str, float, int]:
    """Return the name of the equal kernels that lose most, their loss, and one of the events.

    Args:
        facts: the step.
        loss: seconds of each device event; at least one is positive.
    """
    by_name: dict[str, float] = {}
    example: dict[str, int] = {}
    kernel, op = facts.rows.work.kernel, facts.rows.work.op
    rows = np.flatnonzero(loss > 0)
    pairs, inverse = np.unique(np.stack((kernel[rows], op[rows])), axis=1, return_inverse=True)
    sums = np.bincount(inverse.reshape(-1), weights=loss[rows])
    first = np.full(pairs.shape[1], -1, np.int64)
    first[inverse.reshape(-1)[::-1]] = rows[::-1]
    for i in range(pairs.shape[1]):
        found = facts.rows.kernels.kernels[int(pairs[0, i])]
        of = int(pairs[1, i])
        text = label(found, facts.rows.ops.ops[of] if of >= 0 else None)
        by_name[text] = by_name.get(text, 0.0) + float(sums[i])
        example.setdefault(text, int(first[i]))
    worst = max(by_name, key=lambda text: by_name[text])
    return worst, by_name[worst], example[worst]
