"""How the longest kernels fill the device: waves of thread blocks, the last one rarely full."""

from __future__ import annotations

import math

from gpuscope.analysis.symbols import short_symbol
from gpuscope.analysis.types import Task
from gpuscope.document import format as units
from gpuscope.document.blocks import Bar, Bars, Part
from gpuscope.document.text import Text
from gpuscope.run import Run

_MOST = 10
_FULL = Text("full waves")
_TAIL = Text("last wave, busy")
_EMPTY = Text("last wave, empty")


def waves(run: Run) -> Bars | None:
    """Return the waves of the kernels that take most time; None where none are known."""
    known = [task for task in run.analysis.tasks if task.waves > 0 and task.grid > 0][:_MOST]
    if not known:
        return None
    return Bars(
        Text("Waves of the longest kernels"),
        "count",
        tuple(_bar(task) for task in known),
        note=Text(
            "A wave is as many thread blocks as run at once. What the last one leaves empty is "
            "lost."
        ),
    )


def _bar(task: Task) -> Bar:
    full = math.floor(task.waves + 1e-9)
    last = max(0.0, task.waves - full)
    parts = [Part(_FULL, float(full), "compute")] if full else []
    if last > 1e-9:
        parts += [Part(_TAIL, last, "tail"), Part(_EMPTY, 1.0 - last, "waste")]
    share, count = units.share(task.tail_loss), units.count(task.grid)
    time = units.time(task.time_s)
    return Bar(
        task.label if len(task.label) < 60 else short_symbol(task.label),
        tuple(parts),
        Text(
            "{count} blocks, {time}, {share} of the slots empty",
            count=count,
            time=time,
            share=share,
        ),
    )
