"""Two ways to walk the same job give the same times, to the last digits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_programs import one_f_one_b_order, pipeline
from timeline_programs import call, kernel, ranked, talk

from gpuscope.program.types import ProcessGroup
from gpuscope.timeline.rank_graph import GraphRank, run_graph
from gpuscope.timeline.rank_walk import Exchange, Job, build_job, walk_job
from gpuscope.timeline.walk import EXTRA_STEPS, Pace, Walk

GROUPS = (ProcessGroup("0", "dp", (0, 1)), ProcessGroup("1", "tp", (0, 1)))


def graph(job: Job, steps: int) -> list[Walk]:
    exchange = Exchange(job.coupling)
    ranks = [
        GraphRank(schedule, costed.launch_latency_s, Pace(), steps, meetings, exchange)
        for schedule, costed, meetings in zip(job.schedules, job.costed, job.meetings, strict=True)
    ]
    assert run_graph(ranks)
    return [rank.walk() for rank in ranks]


def agree(job: Job) -> None:
    for fast, slow in zip(walk_job(job, 3), graph(job, 6), strict=True):
        steps = len(fast.ends_s)
        assert fast.ends_s == pytest.approx(slow.ends_s[:steps], rel=1e-12)
    assert EXTRA_STEPS == 3
    for fast, slow in zip(walk_job(job, 1), graph(job, 1), strict=True):
        np.testing.assert_allclose(fast.start_s, slow.start_s, rtol=1e-12)
        np.testing.assert_allclose(fast.end_s, slow.end_s, rtol=1e-12)
        np.testing.assert_allclose(fast.waited_s, slow.waited_s, rtol=1e-12, atol=1e-15)
        assert fast.host_begin_s == slow.host_begin_s


def test_a_pipeline():
    orders = [one_f_one_b_order(3, 5, stage) for stage in range(3)]
    agree(build_job(*pipeline(orders, message_us=7)))


def test_a_full_launch_queue_holds_the_host_back_in_both():
    ops = [*[call(kernel(20))] * 1100, talk(5), call(kernel(1), waits=(1100,))]
    agree(build_job([ranked(ops, rank, GROUPS, 2) for rank in (0, 1)], [(0,), (1,)]))


STEP = st.tuples(
    st.sampled_from(["kernel", "copy", "talk", "sync", "wait"]),
    st.floats(1, 60),
    st.floats(1, 60),
    st.integers(0, 2),
    st.integers(0, 1),
    st.integers(0, 9),
)


def operator(step, rank: int, index: int):
    kind, first_us, second_us, stream, group, target = step
    us = (first_us, second_us)[rank]
    waits = (target % index,) if index else (-1,)
    if kind == "talk":
        return talk(us, group=group, stream=stream)
    if kind == "sync":
        return call(sync="item", stream=stream, waits=waits)
    if kind == "wait":
        return call(stream=stream, waits=waits)
    lane = "copy_h2d" if kind == "copy" else "compute"
    return call(kernel(us, stream=stream, lane=lane), stream=stream, waits=waits)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, min_size=1, max_size=14))
def test_two_ranks_of_one_program_at_different_paces(steps):
    programs = [
        ranked([operator(step, rank, i) for i, step in enumerate(steps)], rank, GROUPS, 2)
        for rank in (0, 1)
    ]
    agree(build_job(programs, [(0,), (1,)]))
