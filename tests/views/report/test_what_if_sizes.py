"""Other sizes of the workload: throughput, memory and what fits, by value."""

from __future__ import annotations

from dataclasses import replace

from run_builders import gpt_run

from gpuscope.document.blocks import Lines, Table
from gpuscope.views.report.what_if_sizes import Varied, size_blocks

RUN = replace(gpt_run(), tokens=8192)
TWICE = replace(RUN, tokens=16384, step_time_s=RUN.step_time_s * 1.5, fits=False)


def test_throughput_is_work_over_time_and_the_run_is_marked() -> None:
    throughput, memory, table = size_blocks(Varied("batch", ((8, RUN), (16, TWICE))), RUN)
    assert isinstance(throughput, Lines)
    assert throughput.series[0].y == (8192 / RUN.step_time_s, 16384 / (1.5 * RUN.step_time_s))
    assert [m.x for m in throughput.marks] == [8.0]
    assert isinstance(memory, Lines)
    assert any(mark.y for mark in memory.marks)
    assert isinstance(table, Table)
    assert table.marked == (0,)
    assert [row[-1] for row in table.rows] == ["yes", "no"]


def test_dtypes_have_no_axis() -> None:
    blocks = size_blocks(Varied("dtype", (("bfloat16", RUN), ("float32", TWICE))), RUN)
    assert len(blocks) == 1


def test_one_point_is_no_curve() -> None:
    assert size_blocks(Varied("batch", ((8, RUN),)), RUN) == ()
