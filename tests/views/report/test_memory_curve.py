"""Memory by category over the step: adds up, keeps the peak, and is not made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from run_builders import bare_run, gpt_run

from gpuscope.views.report.memory_curve import POINTS, _highest, memory_curve


def test_the_categories_of_a_predicted_step_add_up_to_its_memory() -> None:
    run = gpt_run()
    curve = memory_curve(run)
    story = run.analysis.memory
    assert curve is not None
    assert story is not None
    total = np.sum(np.array(curve.allocated_bytes), axis=0)
    assert total.max() == story.peak_bytes
    at = int(total.argmax())
    by_category = dict(zip(curve.categories, (c[at] for c in curve.allocated_bytes), strict=True))
    assert {c: b for c, b in by_category.items() if b} == dict(story.at_peak)
    assert list(curve.time_ns) == sorted(curve.time_ns)
    counter = next(c for c in run.timeline.counters if c.name == "allocated")
    assert curve.time_ns[0] == counter.time_ns[0]


def test_a_long_curve_keeps_its_highest_points() -> None:
    time_ns = np.arange(10_000, dtype=np.int64)
    value = np.zeros(10_000, np.int64)
    value[7_777] = 5
    keep = _highest(time_ns, value)
    assert len(keep) == POINTS
    assert 7_777 in keep
    assert (np.diff(keep) > 0).all()


def test_without_a_program_nothing_is_said() -> None:
    assert memory_curve(bare_run()) is None
    assert memory_curve(replace(gpt_run(), program=None)) is None
