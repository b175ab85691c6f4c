"""Do the marked steps hold their own device work?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuscope.analysis.cover import Cover
from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust_checks.facts import RankFacts
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text
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
            "work_outside_steps",
            "doubt",
            Text(
                "No device work lies within the marked steps: the device ran behind its host, or "
                "the marks belong to something else."
            ),
            ("steps",),
            facts.rank,
        )
        return
    share = Percent(outside / busy.total_ns)
    yield Remark(
        "work_outside_steps",
        "note",
        Text(
            "{outside} of device work ({share}) lies before the first or after the last marked "
            "step: the device runs behind its host there.",
            outside=Seconds(outside * 1e-9),
            share=share,
        ),
        ("steps",),
        facts.rank,
    )


def _cut_steps(facts: RankFacts, inside: Ints, outside_ns: int) -> Iterator[Remark]:
    """The first and the last step, against the ones between them.

    What they lack may lie outside of the marks, where the device runs behind its host: then
    nothing is cut.
    """
    if len(inside) < 4:
        return
    median = float(np.median(inside[1:-1]))
    steps = ((0, Text("first marked step")), (len(inside) - 1, Text("last marked step")))
    for place, which in steps:
        lacking = median - float(inside[place])
        if inside[place] < EMPTY_SHARE * median and outside_ns < 0.5 * lacking:
            share = Percent(float(inside[place]) / median)
            yield Remark(
                "cut_step",
                "doubt",
                Text(
                    "The {which} holds {share} of the device work of the others: it is "
                    "cut, so means over the steps are too low.",
                    which=which,
                    share=share,
                ),
                ("steps",),
                facts.rank,
            )
