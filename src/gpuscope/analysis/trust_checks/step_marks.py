"""Do the marked steps hold their own device work?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuscope.analysis.cover import Cover
from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust_checks.facts import RankFacts
from gpuscope.analysis.wording import percent, seconds
from gpuscope.timeline.types import Ints

OUTSIDE_SHARE = 0.02
"""Device work outside of all marked steps above this share is worth a note."""

EMPTY_SHARE = 0.5
"""A first or last step with less than half of the median step's device work is cut."""


def check(facts: RankFacts) -> Iterator[Remark]:
    """Yield what does not lie within the steps."""
    if not facts.steps or len(facts.device) == 0:
        return
    events = facts.timeline.events
    busy = Cover.of(events.start_ns[facts.device], events.end_ns[facts.device])
    starts = np.array([step.start_ns for step in facts.steps], np.int64)
    ends = np.array([step.end_ns for step in facts.steps], np.int64)
    inside = busy.within(starts, ends)
    yield from _outside(facts, busy, int(starts.min()), int(ends.max()))
    yield from _cut_steps(facts, inside, busy.total_ns - int(inside.sum()))


def _outside(facts: RankFacts, busy: Cover, low: int, high: int) -> Iterator[Remark]:
    within = int(busy.within(np.array([low]), np.array([high]))[0])
    outside = busy.total_ns - within
    if outside < OUTSIDE_SHARE * busy.total_ns:
        return
    if within == 0:
        yield Remark(
            "work_outside_steps", "doubt",
            "No device work lies within the marked steps: the device ran behind its host, or the "
            "marks belong to something else.",
            "标记的训练步内没有任何设备工作：设备落后于主机，或这些标记与之无关。",
            ("steps",), facts.rank,
        )  # fmt: skip
        return
    share = percent(outside / busy.total_ns)
    yield Remark(
        "work_outside_steps", "note",
        f"{seconds(outside * 1e-9)} of device work ({share}) lies before the first or after the "
        "last marked step: the device runs behind its host there.",
        f"{seconds(outside * 1e-9)} 的设备工作（{share}）位于第一个标记步之前或最后一个之后："
        "设备在那里落后于主机。",
        ("steps",), facts.rank,
    )  # fmt: skip


def _cut_steps(facts: RankFacts, inside: Ints, outside_ns: int) -> Iterator[Remark]:
    """The first and the last step, against the ones between them.

    What they lack may lie outside of the marks, where the device runs behind its host: then
    nothing is cut.
    """
    if len(inside) < 4:
        return
    median = float(np.median(inside[1:-1]))
    for place, words, words_zh in ((0, "first", "第一步"), (len(inside) - 1, "last", "最后一步")):
        lacking = median - float(inside[place])
        if inside[place] < EMPTY_SHARE * median and outside_ns < 0.5 * lacking:
            share = percent(float(inside[place]) / median)
            yield Remark(
                "cut_step", "doubt",
                f"The {words} marked step holds {share} of the device work of the others: it is "
                "cut, so means over the steps are too low.",
                f"{words_zh}只包含其他步 {share} 的设备工作：它被截断，各步的平均值偏低。",
                ("steps",), facts.rank,
            )  # fmt: skip
