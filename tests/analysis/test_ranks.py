"""Transfer, waiting and who causes it: hand-built runs, then recorded ones with a known cause."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_builder import RankBuilder

from gpuscope.analysis import analyze
from gpuscope.analysis.ranks import ranks
from gpuscope.analysis.recorded_types import RankStory
from gpuscope.document.text import render
from gpuscope.program.types import TensorSpec
from gpuscope.timeline.types import Timeline

TRACES = Path(__file__).parents[1] / "data" / "traces" / "4xh200"
DLRM = Path(__file__).parents[3] / "shared" / "traces" / "param" / "dlrm_8rank"


def told(b: RankBuilder) -> RankStory:
    story = ranks(b.timeline())
    assert story is not None
    assert story.sentence
    assert render(story.sentence, "zh") != story.sentence
    return story


def balanced(story: RankStory, timeline: Timeline) -> None:
    """Transfer, waiting and what has no partner are all of the communication kernels' time."""
    events = timeline.events
    total = float(events.duration_ns[events.kind == 1].sum()) * 1e-9
    parts = sum(s.transfer_s + s.waiting_s + s.unmatched_s for s in story.ranks)
    assert parts == pytest.approx(total, abs=1e-12)
    assert sum(story.waiting_by_reason.values()) == pytest.approx(story.waiting_s)
    assert sum(time for _, _, time in story.causes) == pytest.approx(story.waiting_s)
    assert sum(s.caused_s for s in story.ranks) == pytest.approx(story.waiting_s)
    assert sum(s.times_last for s in story.ranks) == story.matched


def test_the_shortest_is_the_transfer_and_the_rest_is_waiting() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 40, 2: 10}, 25)
    b.meet({0: 100, 1: 100, 2: 160}, 25)
    story = told(b)
    assert [s.transfer_s for s in story.ranks] == pytest.approx([50e-6] * 3)
    assert [s.waiting_s for s in story.ranks] == pytest.approx([100e-6, 60e-6, 30e-6])
    assert [s.caused_s for s in story.ranks] == pytest.approx([0, 70e-6, 120e-6])
    assert [s.times_last for s in story.ranks] == [0, 1, 1]
    assert (story.matched, story.unmatched) == (2, 0)
    assert story.calls[0].last == 2
    assert story.calls[0].waits_s == pytest.approx((60e-6, 60e-6, 0))
    assert story.calls[0].late_s == pytest.approx(60e-6)
    balanced(story, b.timeline())


def test_one_rank_has_no_story() -> None:
    b = RankBuilder()
    b.meet({0: 0}, 25, members=(0, 1))
    assert ranks(b.timeline()) is None


def test_ranks_without_communication_have_no_story() -> None:
    b = RankBuilder()
    b.work(0, 10, rank=0)
    b.work(0, 10, rank=1)
    assert ranks(b.timeline()) is None


def test_computation_beside_it_hides_waiting() -> None:
    b = RankBuilder()
    b.work(0, 30, rank=0)
    b.meet({0: 0, 1: 40}, 10)
    story = told(b)
    assert story.ranks[0].waiting_s == pytest.approx(40e-6)
    assert story.ranks[0].exposed_waiting_s == pytest.approx(10e-6)
    assert story.ranks[0].exposed_transfer_s == pytest.approx(10e-6)


def test_bandwidth_comes_from_the_transfer() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 900, 2: 0, 3: 0}, 100, elements=1_000_000)
    (sort,) = told(b).sorts
    assert sort.message_bytes == 4_000_000
    assert sort.transfer_s == pytest.approx(100e-6)
    assert sort.algorithm_bytes_per_s == pytest.approx(40e9)
    assert sort.bus_bytes_per_s == pytest.approx(40e9 * 2 * 3 / 4)
    assert not sort.is_lower_bound
    assert sort.waiting_s == pytest.approx(900e-6 * 3 / 4)


def test_groups_of_one_wait_for_nobody_and_have_no_partner_to_miss() -> None:
    b = RankBuilder()
    b.meet({0: 0}, 30, group="alone")
    b.meet({0: 100, 1: 120}, 10, elements=256)
    story = told(b)
    assert story.ranks[0].transfer_s == pytest.approx(40e-6)
    assert story.unmatched == 0
    assert [s.message_bytes for s in story.ranks] == [4 * (1024 + 256), 4 * 256]
    balanced(story, b.timeline())


def test_a_receive_waits_for_its_send() -> None:
    b = RankBuilder()
    kernel = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    for start in (0, 200):  # a pipeline: rank 0 computes and sends, rank 1 has long been waiting
        b.work(start, start + 80, rank=0, launch_us=start - 50)
        b.meet({0: start + 80}, 10, name="send", kernel=kernel, members=(0, 1))
        b.meet({1: start + 5}, 85, name="recv", kernel=kernel, members=(0, 1))
    story = told(b)
    assert story.matched == 2
    assert story.ranks[1].waiting_s == pytest.approx(2 * 75e-6)
    assert story.ranks[0].caused_s == pytest.approx(2 * 75e-6)
    assert story.calls[0].reason == "more work"


def late_host(slow: int = 1, steps: int = 3) -> RankBuilder:
    """One rank's host launches 300 us late before each collective; its device idles meanwhile."""
    b, now = RankBuilder(), 0.0
    for _ in range(steps):
        begin = now
        for _ in range(4):
            arrivals = {}
            for rank in range(4):
                late = 300.0 if rank == slow else 0.0
                if late:
                    b.host(now, now + late, name="aten::slow", rank=rank)
                b.work(now + late + 8, now + late + 20, rank=rank, launch_us=now + late + 1)
                arrivals[rank] = now + late + 21
            now = b.meet(arrivals, 9, launch_before_us=5) + 1
        for rank in range(4):
            b.step(begin, now, rank)
    return b


def test_a_late_host_is_the_reason() -> None:
    b = late_host()
    story = told(b)
    assert story.straggler is not None
    assert story.straggler.rank == 1
    assert story.straggler.share == pytest.approx(1)
    assert story.straggler.reason == "host dispatching"
    assert story.calls[0].instead == "aten::slow"
    assert story.calls[0].instead_s == pytest.approx(300e-6, rel=0.05)
    assert story.steps == 3
    balanced(story, b.timeline())


def test_all_reduce_that_only_waits_for_a_host_is_host_bound_not_communication_bound() -> None:
    b = late_host()
    timeline = b.timeline()
    events = timeline.events
    own = np.array([lane.rank == 0 for lane in timeline.lanes])[events.lane]
    talk = float(events.duration_ns[own & (events.kind == 1)].sum())
    busy = float(events.duration_ns[own & (events.kind < 4)].sum())
    assert talk / busy > 0.9  # what a single trace shows: all-reduce fills the device's time
    found = analyze(timeline).findings
    kinds = [finding.kind for finding in found]
    assert "communication_bound" not in kinds
    assert kinds[0] == "host_bound"
    assert "rank 1" in found[0].title
    assert found[0].max_gain_s == pytest.approx(4 * 300e-6, rel=0.01)


def test_more_work_is_the_reason() -> None:
    b, now = RankBuilder(), 0.0
    for _ in range(3):
        for _ in range(4):
            arrivals = {}
            for rank in range(4):
                count = 6 if rank == 3 else 2
                for i in range(count):
                    begin = now + 10 * i
                    b.work(begin, begin + 10, rank=rank, launch_us=begin - 900)
                arrivals[rank] = now + 10 * count
            now = b.meet(arrivals, 5, launch_before_us=900)
        for rank in range(4):
            b.step(now - 260, now, rank)
    story = told(b)
    assert story.straggler is not None
    assert (story.straggler.rank, story.straggler.reason) == (3, "more work")
    assert story.straggler.work_ratio == pytest.approx(3)
    assert story.calls[0].instead == "kernel"
    found = next(f for f in analyze(b.timeline()).findings if f.kind == "wait_for_rank")
    assert "rank 3" in found.title
    assert "equal work" in found.hint
    assert found.max_gain_s == pytest.approx(4 * 40e-6)


def test_slower_kernels_are_the_reason_only_where_shapes_are_equal() -> None:
    b, now = RankBuilder(), 0.0
    spec = (TensorSpec((64, 64), (64, 1), "bfloat16"),)
    op = b.op("aten::mm", inputs=spec)
    for _ in range(8):
        arrivals = {}
        for rank in range(4):
            length = 60 if rank == 2 else 40
            b.work(now, now + length, rank=rank, op=op, launch_us=now - 500)
            arrivals[rank] = now + length
        now = b.meet(arrivals, 5, launch_before_us=500)
    story = told(b)
    assert story.straggler is not None
    assert (story.straggler.rank, story.straggler.reason) == (2, "slower kernels")
    assert story.straggler.kernel_ratio == pytest.approx(1.5)


def test_a_rank_that_is_recorded_later_began_late() -> None:
    b = RankBuilder()
    for rank, begin in enumerate((0, 0, 0, 5_000)):
        b.step(begin, 6_000, rank)
        b.host(begin, begin + 50, rank=rank)
        b.work(begin + 60, begin + 90, rank=rank, launch_us=begin + 40)
    b.meet({0: 100, 1: 100, 2: 100, 3: 5_100}, 20, launch_before_us=50)
    story = told(b)
    assert story.calls[0].reason == "began late"
    assert story.calls[0].instead_s == pytest.approx(5e-3)
    assert "Record several steps" in story.sentence or "record several steps" in story.sentence


def test_ranks_that_take_turns_are_no_stragglers() -> None:
    b, now = RankBuilder(), 0.0
    for number in range(12):
        now = b.meet({rank: now + (50 if rank == number % 4 else 0) for rank in range(4)}, 10)
    story = told(b)
    assert story.straggler is None
    assert "No rank holds up the others" in story.sentence


def test_one_bad_step_makes_no_straggler() -> None:
    b, now = RankBuilder(), 0.0
    for step in range(4):
        begin = now
        for _ in range(3):
            now = b.meet({r: now + (400 if r == 2 and step == 1 else 0) for r in range(4)}, 100)
        for rank in range(4):
            b.step(begin, now, rank)
    assert told(b).straggler is None


@given(
    arrivals=st.lists(
        st.lists(st.integers(0, 300), min_size=3, max_size=3), min_size=1, max_size=8
    ),
    transfer=st.integers(1, 40),
    skew=st.integers(-2_000, 2_000),
)
def test_times_add_up_whoever_comes_last(
    arrivals: list[list[int]], transfer: int, skew: int
) -> None:
    b, now, caused = RankBuilder(skew_us={2: float(skew)}), 0.0, 0
    for waits in arrivals:
        caused += sum(max(waits) - wait for wait in waits)
        now = b.meet({r: now + wait for r, wait in enumerate(waits)}, transfer)
    timeline = b.timeline()
    story = ranks(timeline)
    assert story is not None
    balanced(story, timeline)
    assert story.transfer_s == pytest.approx(3 * len(arrivals) * transfer * 1e-6)
    assert story.waiting_s == pytest.approx(caused * 1e-6)


# -- recorded runs --------------------------------------------------------------------------------


def recorded(folder: Path) -> Timeline:
    if not folder.is_dir():
        pytest.skip(f"{folder.name} is not here")
    kineto = pytest.importorskip("gpuscope.timeline.kineto")
    from gpuscope.timeline.ranks import merge

    return merge([kineto.read_trace(path) for path in sorted(folder.glob("*.json.gz"))])


@pytest.mark.parametrize(
    ("folder", "rank", "reasons", "kind"),
    [
        ("ddp_slow_host", 1, {"host dispatching"}, "host_bound"),
        ("ddp_imbalance", 3, {"more work"}, "wait_for_rank"),
        ("tensor_parallel_host_bound", 0, {"host dispatching"}, "host_bound"),
        ("fsdp", 1, {"host dispatching"}, "host_bound"),
    ],
)
def test_the_built_in_cause_is_found(folder: str, rank: int, reasons: set[str], kind: str) -> None:
    timeline = recorded(TRACES / folder)
    found = analyze(timeline)
    assert found.ranks is not None
    balanced(found.ranks, timeline)
    assert found.ranks.straggler is not None
    assert found.ranks.straggler.rank == rank
    assert found.ranks.straggler.reason in reasons
    story = next(f for f in found.findings if f"rank {rank}" in f.title)
    assert story.kind == kind
    if folder == "tensor_parallel_host_bound":
        assert "communication_bound" not in [f.kind for f in found.findings]


def test_balanced_ranks_have_no_straggler() -> None:
    found = analyze(recorded(TRACES / "ddp_balanced"))
    assert found.ranks is not None
    assert found.ranks.straggler is None
    assert "wait_for_rank" not in [f.kind for f in found.findings]


def test_eight_ranks_of_dlrm() -> None:
    """Read off the files by hand: all ranks leave each collective within 2 us of each other."""
    timeline = recorded(DLRM)
    story = ranks(timeline)
    assert story is not None
    balanced(story, timeline)
    assert (story.matched, story.unmatched) == (8, 0)
    assert all(abs(s.clock_offset_s or 0) < 3e-6 for s in story.ranks)
    assert [s.times_last for s in story.ranks] == [0, 0, 0, 0, 1, 2, 0, 5]
    first = story.calls[0]
    assert (first.number, first.last) == (0, 7)
    assert first.transfer_s == pytest.approx(10e-6, abs=1e-9)
    waits = (2136, 7625, 508, 6122, 4872, 4669, 504, 0)
    assert first.waits_s == pytest.approx([wait * 1e-6 for wait in waits], abs=1e-9)
    assert first.reason == "began late"
    assert first.instead_s == pytest.approx(4_523e-6, abs=1e-9)  # 28,718 against 24,195 us
    assert story.ranks[7].caused_s == pytest.approx(35.543e-3, abs=1e-6)
    later = {(rank, reason) for rank, reason, _ in story.causes}
    assert {(4, "host dispatching"), (5, "host dispatching")} <= later
    # Its host is one of the fastest: what follows its late start is no fault of it.
    assert (7, "host dispatching") not in later
    assert story.straggler is None
