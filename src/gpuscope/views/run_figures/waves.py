"""How the longest kernels fill the device: waves of thread blocks, the last one rarely full."""

from __future__ import annotations

import math

from gpuscope.analysis.symbols import short_symbol
from gpuscope.analysis.types import Task
from gpuscope.explain.types import Bar, Bars, Part, Words
from gpuscope.run import Run
from gpuscope.views import units

_MOST = 10
_FULL = Words("full waves", "满的波次")
_TAIL = Words("last wave, busy", "尾波（占用）")
_EMPTY = Words("last wave, empty", "尾波（空闲）")


def waves(run: Run) -> Bars | None:
    """Return the waves of the kernels that take most time; None where none are known."""
    known = [task for task in run.analysis.tasks if task.waves > 0 and task.grid > 0][:_MOST]
    if not known:
        return None
    return Bars(
        Words("Waves of the longest kernels", "耗时最长的内核的波次"), "count",
        tuple(_bar(task) for task in known),
        note=Words(
            "A wave is as many thread blocks as run at once. What the last one leaves empty is "
            "lost.",
            "一个波次是设备同时能运行的线程块数；最后一波未填满的部分是浪费。",
        ),
    )  # fmt: skip


def _bar(task: Task) -> Bar:
    full = math.floor(task.waves + 1e-9)
    last = max(0.0, task.waves - full)
    parts = [Part(_FULL, float(full), "compute")] if full else []
    if last > 1e-9:
        parts += [Part(_TAIL, last, "tail"), Part(_EMPTY, 1.0 - last, "waste")]
    share, count = units.percent(task.tail_loss), units.count(task.grid)
    time = units.time(task.time_s)
    return Bar(
        task.label if len(task.label) < 60 else short_symbol(task.label), tuple(parts),
        Words(
            f"{count} blocks, {time}, {share} of the slots empty",
            f"{count} 个线程块，{time}，{share} 的位置空闲",
        ),
    )  # fmt: skip
