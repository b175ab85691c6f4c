"""How long some of a step's operators keep the device, their host being far ahead of it.

Repeated without end, as the equal blocks of a deep model are: what communication the kernels of
the same or the next repetition cover counts for nothing, and what they lose by it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuscope.cost.types import CostedProgram, HostCost
from gpuscope.timeline.contention import Overlap
from gpuscope.timeline.schedule import build_schedule
from gpuscope.timeline.simulate import contended_walk

__all__ = ["device_time_s"]

TURNS = 3
"""Repetitions that are walked; the last one counts."""


def device_time_s(costed: CostedProgram, places: Sequence[int], overlap: Overlap | None) -> float:
    """Device time of a repetition, seconds.

    Args:
        costed: the step.
        places: which of its operators, in order; each runs once.
        overlap: how collectives and kernels beside each other slow each other; None: not at all.
    """
    numbers = {old: new for new, old in enumerate(places)}
    items = []
    for old, new in numbers.items():
        item = costed.ops[old]
        waits = tuple(numbers[w] for w in item.op.waits if w in numbers)
        op = replace(item.op, index=new, waits=waits, repeat=1)
        items.append(replace(item, op=op, host=HostCost(0.0, 0.0, 0.0)))
    if not any(item.kernels for item in items):
        return 0.0
    program = replace(costed.program, ops=tuple(item.op for item in items), storages=())
    part = replace(costed, program=program, ops=tuple(items))
    walk, _ = contended_walk(part, build_schedule(part), TURNS, overlap)
    return walk.period_s
