"""Which collective call each communication task of a predicted step is, in the words of recordings.

A recording names a call's group, its ranks, its sizes and its number within the group
(`gpuscope.timeline.types.Collective`); so does a prediction, and the same analyses read both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpuscope.cost.types import CostedProgram
from gpuscope.program.types import Op, ProcessGroup
from gpuscope.timeline.messages import message_of
from gpuscope.timeline.places import group_labels
from gpuscope.timeline.schedule import Schedule
from gpuscope.timeline.types import Collective, Ints


@dataclass(frozen=True, slots=True)
class Naming:
    """What a program's groups and peers are called in a picture of several ranks.

    Attributes:
        groups: in place of `Program.groups`: one name and one list of ranks on all ranks drawn.
        drawn: rank -> the rank that is drawn in its place.
    """

    groups: tuple[ProcessGroup, ...]
    drawn: Mapping[int, int] = field(default_factory=dict)


def message_columns(
    costed: CostedProgram, schedule: Schedule, rows: Ints, naming: Naming | None = None
) -> tuple[tuple[Collective, ...], Ints, Ints]:
    """Calls, and for each of `rows` the index of its call and its number within its group.

    Args:
        costed, schedule: the step.
        rows: device tasks, in the order of issue.
        naming: how groups and peers are called; by default as the program does.

    Returns:
        Distinct calls; index and sequence number by row, -1 for what is no communication.
    """
    names = naming or Naming(costed.program.groups)
    labels = group_labels(names.groups)
    index = np.full(len(rows), -1, np.int64)
    sequence = np.full(len(rows), -1, np.int64)
    table: dict[Collective, int] = {}
    of_op: dict[int, int] = {}
    count: dict[tuple[int, int, bool], int] = {}
    links = np.array([kernel.lane == "link" for kernel in schedule.kernels], bool)
    if not links.any():
        return (), index, sequence
    for at in np.flatnonzero(links[schedule.kernel[rows]]).tolist():
        position = int(schedule.op[rows[at]])
        op = costed.ops[position].op
        if position not in of_op:
            call = _collective(op, costed.program.rank, names, labels)
            of_op[position] = table.setdefault(call, len(table))
        index[at] = of_op[position]
        sequence[at] = _number(op, costed.program.rank, names, count)
    return tuple(table), index, sequence


def _collective(op: Op, rank: int, names: Naming, labels: tuple[str, ...]) -> Collective:
    """The call as a recording would name it."""
    message = message_of(op)
    known = 0 <= op.group < len(names.groups)
    ranks = names.groups[op.group].ranks if known else ()
    if op.peer >= 0:
        ranks = tuple(sorted({rank, names.drawn.get(op.peer, op.peer)}))
        ranks = ranks if len(ranks) == 2 else tuple(sorted((rank, op.peer)))
    size = op.args.get("group_size")
    recorded = size if isinstance(size, int) else None
    return Collective(
        name=message.sort,
        group=labels[op.group] if known else "",
        group_size=len(ranks) or recorded,
        group_ranks=ranks,
        dtype=message.dtype,
        in_elements=message.in_elements,
        out_elements=message.out_elements,
    )


def _number(op: Op, rank: int, names: Naming, count: dict[tuple[int, int, bool], int]) -> int:
    """The how-manieth call of its group; of two ranks' sends each way has its own numbers."""
    peer = names.drawn.get(op.peer, op.peer) if op.peer >= 0 else -1
    receives = peer >= 0 and "recv" in op.name
    key = (op.group, peer, receives)
    number = count.get(key, 0)
    count[key] = number + 1
    if peer < 0:
        return number
    downwards = (peer < rank) != receives
    return 2 * number + int(downwards)
