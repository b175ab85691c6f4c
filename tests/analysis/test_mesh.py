"""Who sends what to whom: known amounts by hand, and what a rank sends is what its peers get."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_builder import RankBuilder
from recorded_calls import TRACES

import gpuscope as gs
from gpuscope.analysis.collective_names import bus_factor
from gpuscope.analysis.mesh import MOST_DRAWN, Mesh, mesh


def _mesh(builder: RankBuilder) -> Mesh:
    found = mesh(builder.timeline(), None, {})
    assert found is not None
    return found


def test_an_all_reduce_of_four_ranks_sends_each_other_one_half_of_the_message() -> None:
    b = RankBuilder()
    b.meet(dict.fromkeys(range(4), 10.0), 20.0, elements=1000)
    found = _mesh(b)
    assert [rank.rank for rank in found.ranks] == [0, 1, 2, 3]
    assert all(rank.sent_bytes == 6000.0 for rank in found.ranks)  # 4000 bytes x 2 x 3 / 4
    assert len(found.flows) == 12
    assert {flow.sent_bytes for flow in found.flows} == {2000.0}
    (group,) = found.groups
    assert (group.ranks, group.size) == ((0, 1, 2, 3), 4)
    assert (group.sorts[0].name, group.sorts[0].count) == ("all_reduce", 1.0)
    assert group.sorts[0].message_bytes == 4000.0
    assert group.sorts[0].time_s == pytest.approx(20e-6)
    assert found.unplaced == 0


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]),
            st.sampled_from([(0, 1), (2, 3), (0, 1, 2, 3), (1, 3)]),
            st.integers(1, 10**6),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_what_a_rank_sends_in_all_is_what_its_peers_get_from_it(
    calls: list[tuple[str, tuple[int, ...], int]],
) -> None:
    b, now, due = RankBuilder(), 0.0, dict.fromkeys(range(4), 0.0)
    for name, ranks, elements in calls:
        now = b.meet(
            dict.fromkeys(ranks, now + 1),
            5.0,
            name=name,
            group=str(ranks),
            elements=elements,
            stream=f"stream {ranks}",
        )
        for rank in ranks:
            due[rank] += 4 * elements * (bus_factor(name, len(ranks)) or 0.0)
    found = _mesh(b)
    for rank in found.ranks:
        out = sum(flow.sent_bytes for flow in found.flows if flow.sender == rank.rank)
        assert out == pytest.approx(due[rank.rank])
        assert out == pytest.approx(rank.sent_bytes or 0.0)
    for flow in found.flows:
        assert {flow.sender, flow.receiver} <= set(found.groups[flow.group].ranks)


def test_a_send_goes_to_the_rank_that_receives_it() -> None:
    b = RankBuilder()
    for rank, name in ((0, "send"), (1, "recv")):
        b.meet(
            {rank: 10.0},
            20.0,
            name=name,
            members=(0, 1),
            elements=256,
            kernel="ncclDevKernel_SendRecv",
        )
    found = _mesh(b)
    assert [(f.sender, f.receiver, f.sent_bytes) for f in found.flows] == [(0, 1, 1024.0)]


def test_a_broadcast_does_not_say_who_sends() -> None:
    b = RankBuilder()
    b.meet({0: 10.0, 1: 10.0}, 5.0, name="broadcast", kernel="ncclDevKernel_Broadcast")
    found = _mesh(b)
    assert found.flows == ()
    assert found.unplaced == 2
    assert found.ranks[0].sent_bytes is None
    assert found.groups[0].sorts[0].sent_bytes is None


def test_members_without_a_recording_are_named_and_send_nothing() -> None:
    b = RankBuilder()
    b.meet({0: 10.0}, 5.0, members=(0, 1), elements=500)
    found = _mesh(b)
    assert [(rank.rank, rank.recorded) for rank in found.ranks] == [(0, True), (1, False)]
    assert [(f.sender, f.receiver, f.sent_bytes) for f in found.flows] == [(0, 1, 2000.0)]
    assert found.ranks[1].sent_bytes is None
    assert found.ranks[1].transfer_s is None


def test_many_ranks_give_groups_but_no_pairs() -> None:
    b = RankBuilder()
    b.meet(dict.fromkeys(range(MOST_DRAWN + 1), 1.0), 5.0)
    found = _mesh(b)
    assert found.flows == ()
    assert len(found.ranks) == MOST_DRAWN + 1
    assert found.ranks[7].sent_bytes == pytest.approx(4096 * 2 * 64 / 65)


def test_nobody_talks() -> None:
    b = RankBuilder()
    b.work(0, 10)
    assert mesh(b.timeline(), None, {}) is None
    b.meet({0: 20.0}, 5.0)
    assert mesh(b.timeline(), None, {}) is None
    plain = TimelineBuilder()
    plain.work(0, 10, kind="communication", name="all_reduce", stream="link")
    assert mesh(plain.build(), None, {}) is None


def test_a_real_recording_of_four_ranks() -> None:
    run = gs.load(TRACES / "4xh200" / "ddp_imbalance")
    compute = {rank: time.compute_s for rank, time in run.analysis.time.items()}
    found = mesh(run.timeline, run.analysis.ranks, compute)
    assert found is not None
    # Eight buckets a step of 16,781,312 bfloat16 values each, over four ranks.
    assert found.steps == 3
    assert {rank.sent_bytes for rank in found.ranks} == {8 * 2 * 16781312 * 1.5}
    assert len(found.flows) == 12
    assert found.ranks[0].device == 0
    assert all((rank.waiting_s or 0) > 0 for rank in found.ranks[:3])


def test_a_predicted_rank_sits_on_its_node_and_a_large_job_is_drawn_by_its_sorts() -> None:
    from gpuscope.cost.types import CostedOp, CostedProgram, HostCost, Kernel
    from gpuscope.program.types import Op, ProcessGroup, Program, TensorSpec
    from gpuscope.timeline.simulate_ranks import simulate_ranks

    def job(ranks: int) -> CostedProgram:
        numbers = TensorSpec((1024,), (1,), "bfloat16")
        op = Op(0, "c10d::allreduce_", inputs=(numbers,), group=0)
        program = Program(
            "all", (op,), world_size=ranks, groups=(ProcessGroup("0", "dp", tuple(range(ranks))),)
        )
        kernel = Kernel("talk", "collective", 0, 1e-3, 1e-3, 1e-3, lane="link")
        item = CostedOp(op, (kernel,), HostCost(0.0, 0.0, 0.0))
        return CostedProgram(program, "h200", (item,))

    small = mesh(simulate_ranks([job(16)], [tuple(range(16))]).timeline, None, {}, 8)
    assert small is not None
    assert [(r.host, r.device) for r in small.ranks][7:9] == [("node 0", 7), ("node 1", 0)]
    assert len(small.ranks) == 16
    large = mesh(simulate_ranks([job(4096)], [tuple(range(4096))]).timeline, None, {}, 8)
    assert large is not None
    assert [rank.rank for rank in large.ranks] == [0]
    assert large.flows == ()
    assert large.groups[0].size == 4096
