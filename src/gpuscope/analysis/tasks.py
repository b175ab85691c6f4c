"""How kernels are split over the machine: grid, tile, waves, what the last wave wastes."""

from __future__ import annotations

import math

from gpuscope.analysis.breakdown import Rows
from gpuscope.analysis.grouping import KernelGroups, group_key, label
from gpuscope.analysis.pieces import waves
from gpuscope.analysis.types import Task


def tail_loss(waves: float) -> float:
    """Return the share of the machine's block slots that stay empty: 1 - waves / ceil(waves).

    2.0 waves waste nothing; 1.1 waves run as long as 2 and waste 45 %; 0.25 waves leave three
    quarters of the machine empty. 0 where waves are not known.
    """
    return 1.0 - waves / math.ceil(waves) if waves > 0 else 0.0


def tasks(rows: Rows, groups: KernelGroups) -> tuple[Task, ...]:
    """Return one row per group of equal kernels that run on the compute units, longest first."""
    found = []
    for i in range(len(groups.kernel)):
        kernel = rows.kernels.kernels[groups.kernel[i]]
        if kernel.lane != "compute":
            continue
        op = rows.ops.ops[groups.op[i]] if groups.op[i] >= 0 else None
        filled = waves(kernel, op)
        found.append(
            Task(
                label=label(kernel, op),
                kind=kernel.kind,
                count=max(1, round(int(groups.count[i]) / rows.work.window.steps)),
                time_s=float(groups.time_s[i]),
                grid=kernel.grid,
                block=kernel.block,
                tile=kernel.tile,
                waves=filled,
                tail_loss=tail_loss(filled),
                occupancy=kernel.occupancy,
                limiter=kernel.limiter,
                kernel=kernel.name,
                group=group_key(kernel),
            )
        )
    return tuple(found)
