"""Several ranks together: bubbles of pipelines, stragglers, who waits for whom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_programs import gpipe_order, one_f_one_b_order, pipeline
from timeline_programs import US, call, kernel, ranked, talk

from gpuscope.errors import InvalidValueError
from gpuscope.program.apart import apart
from gpuscope.program.types import MeshDimension, ProcessGroup
from gpuscope.program.world import RankPrograms
from gpuscope.timeline.ranks import ranks_of
from gpuscope.timeline.simulate import simulate
from gpuscope.timeline.simulate_ranks import simulate_ranks
from gpuscope.timeline.types import DEVICE_KINDS
from gpuscope.timeline.walk import Pace

BOTH = ProcessGroup("0", "dp", (0, 1))


def two(first_us: float, second_us: float, talk_us: float = 10):
    """Two ranks that compute for different times, then meet."""
    return [
        ranked([call(kernel(us)), talk(talk_us), call(kernel(5), waits=(1,))], rank, (BOTH,), 2)
        for rank, us in enumerate((first_us, second_us))
    ]


@pytest.mark.parametrize("order", [gpipe_order, one_f_one_b_order])
@pytest.mark.parametrize(("stages", "micro"), [(2, 2), (4, 8), (4, 4), (8, 3), (3, 1)])
def test_the_bubble_of_equal_stages_is_that_of_the_papers(order, stages, micro):
    r = simulate_ranks(*pipeline([order(stages, micro, s) for s in range(stages)]))
    work_s = micro * 300 * US
    assert r.step_time_s == pytest.approx((micro + stages - 1) * 300 * US, rel=1e-9)
    assert 1 - work_s / r.step_time_s == pytest.approx((stages - 1) / (micro + stages - 1))


def test_messages_between_stages_lengthen_the_pipeline_by_hand():
    # One micro-batch over two stages: forward, message, forward and backward, message, backward.
    r = simulate_ranks(*pipeline([gpipe_order(2, 1, s) for s in range(2)], message_us=50))
    assert r.step_time_s == pytest.approx((100 + 50 + 100 + 200 + 50 + 200) * US)


def test_a_slow_stage_sets_the_pace_of_a_pipeline():
    programs, members = pipeline([one_f_one_b_order(4, 32, s) for s in range(4)])
    even = simulate_ranks(programs, members).step_time_s
    paces = [Pace(), Pace(device=1.5), Pace(), Pace()]
    slow = simulate_ranks(programs, members, paces=paces).step_time_s
    assert 32 * 450 * US < slow < even * 1.5


def test_the_last_rank_to_come_is_waited_for():
    r = simulate_ranks(two(100, 300), [(0,), (1,)], steps=1)
    early, late = r.ranks
    assert early.waiting_s["dp"] == pytest.approx(200 * US)
    assert late.waiting_s["dp"] == pytest.approx(0, abs=1e-12)
    # Launch call, latency, kernel, collective (queue of its own: no gap), kernel after a gap.
    assert r.first_step_s == pytest.approx((2 + 3 + 4 + 300 + 10 + 5) * US, abs=2 * US)
    ends = {}
    events = r.timeline.events
    for row in np.flatnonzero(events.kind == 1).tolist():
        ends[r.timeline.lanes[events.lane[row]].rank] = int(events.end_ns[row])
    assert ends[0] == ends[1]


def test_equal_ranks_are_as_one_rank():
    alone = simulate(two(100, 100)[0])
    both = simulate_ranks(two(100, 100), [(0,), (1,)])
    one = simulate_ranks(two(100, 100)[:1], [(0, 1)])
    assert both.step_time_s == pytest.approx(alone.step_time_s, rel=1e-12)
    assert one.step_time_s == alone.step_time_s
    assert len(one.timeline.events) == len(alone.timeline.events)


def test_thousands_of_members_are_walked_once():
    orders = [one_f_one_b_order(4, 8, s) for s in range(4)]
    few = simulate_ranks(*pipeline(orders))
    many = simulate_ranks(*pipeline(orders, replicas=1024))
    assert many.step_time_s == few.step_time_s
    assert len(many.timeline.events) == len(few.timeline.events)
    assert [len(rank.members) for rank in many.ranks] == [1024] * 4
    assert many.timeline.stands_for[1024] == tuple(range(1024, 2048))


def test_the_representatives_of_stages_need_not_be_neighbours():
    programs, members = pipeline([gpipe_order(2, 3, s) for s in range(2)], replicas=4)
    group = ProcessGroup("9", "pp", (3, 7))
    other = replace(programs[1].program, rank=7, groups=(group,))
    ops = tuple(
        replace(item, op=replace(item.op, peer=3 if item.op.peer >= 0 else -1))
        for item in programs[1].ops
    )
    moved = replace(programs[1], program=other, ops=ops)
    r = simulate_ranks([programs[0], moved], members)
    assert r.step_time_s == pytest.approx(4 * 300 * US)


def test_a_late_host_holds_up_the_others():
    programs = two(100, 100)
    even = simulate_ranks(programs, [(0,), (1,)])
    late = simulate_ranks(programs, [(0,), (1,)], paces=[Pace(), Pace(late_s=1e-3)])
    assert late.step_time_s == pytest.approx(1e-3 + 18 * US, rel=0.2)
    assert late.ranks[0].waiting_s["dp"] > 0.7e-3
    assert even.step_time_s < late.step_time_s


def test_the_picture_has_every_rank():
    r = simulate_ranks(two(100, 300), [(0,), (1,)])
    assert ranks_of(r.timeline) == (0, 1)
    assert sorted(step.rank for step in r.timeline.steps) == [0, 1]
    messages = r.timeline.messages
    assert messages is not None
    assert messages.sequence.tolist() == [0, 0]
    call_ = r.timeline.collectives[messages.collective[0]]
    assert (call_.name, call_.group, call_.group_ranks) == ("all_reduce", "dp", (0, 1))
    assert (call_.dtype, call_.in_elements) == ("float32", 4)


@settings(max_examples=30, deadline=None)
@given(
    us=st.lists(st.floats(1, 500), min_size=4, max_size=4),
    which=st.integers(0, 3),
    more=st.floats(0, 300),
)
def test_a_slower_kernel_never_makes_the_first_step_shorter_and_time_is_conserved(us, which, more):
    def job(times):
        groups = (BOTH,)
        return [
            ranked(
                [call(kernel(a)), talk(20), call(kernel(b), waits=(1,)), talk(5)], rank, groups, 2
            )
            for rank, (a, b) in enumerate((times[:2], times[2:]))
        ]

    slower = list(us)
    slower[which] += more
    before = simulate_ranks(job(us), [(0,), (1,)])
    after = simulate_ranks(job(slower), [(0,), (1,)])
    assert after.first_step_s >= before.first_step_s - 1e-12
    for rank in before.ranks:
        assert rank.device_busy_s + rank.idle_s == pytest.approx(rank.step_time_s)
        own = np.array([lane.rank == rank.rank for lane in before.timeline.lanes])
        events = before.timeline.events
        device = own[events.lane] & (events.kind < DEVICE_KINDS)
        assert events.duration_ns[device].sum() * 1e-9 >= rank.device_busy_s - 1e-8


@pytest.mark.parametrize(
    "members", [[(0,)], [(0,), (0, 1)], [(1,), (0,)]], ids=["too few", "twice", "not its own"]
)
def test_programs_and_members_must_fit(members):
    with pytest.raises(InvalidValueError):
        simulate_ranks(two(1, 2), members)


def test_one_slow_device_of_a_mesh_holds_up_all_in_turn():
    groups = (ProcessGroup("1", "dp", (0, 4)), ProcessGroup("2", "tp", (0, 1, 2, 3)))
    ops = []
    for _ in range(8):
        ops += [call(kernel(200)), talk(10, group=1), call(waits=(len(ops) + 1,))]
    ops += [talk(30, group=0), call(kernel(5), waits=(len(ops),))]
    base = ranked(ops, 0, groups, 8)
    mesh = (MeshDimension("dp", 2), MeshDimension("tp", 4))
    found = apart(RankPrograms((replace(base.program, mesh=mesh),), (tuple(range(8)),)), 5)
    programs = [replace(base, program=program) for program in found.programs]
    even = simulate_ranks(programs, found.members)
    assert even.step_time_s == pytest.approx(simulate(base).step_time_s)
    assert even.timeline.notes == ()
    paces = [Pace(device=1.5), Pace(), Pace(), Pace()]
    slow = simulate_ranks(programs, found.members, paces=paces)
    assert slow.step_time_s == pytest.approx(even.step_time_s + 8 * 100 * US + 2.5 * US, rel=1e-3)
    assert len({round(rank.step_time_s * 1e9) for rank in slow.ranks}) == 1
    waits = {rank.rank: rank.waiting_s for rank in slow.ranks}
    assert sum(waits[5].values()) == pytest.approx(0, abs=1e-9)
    # Its tensor parallel neighbour waits in every product, its replica once, for the gradients.
    assert waits[6]["tp"] == pytest.approx(8 * 100 * US, rel=0.01)
    assert waits[1]["dp"] == pytest.approx(8 * 100 * US, rel=0.02)
