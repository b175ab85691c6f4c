"""Communication of one rank: counts, times, sizes and bandwidths."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder
from rank_builder import RankBuilder

from gpuscope.analysis.communication import communication


def test_times_of_one_rank() -> None:
    b = RankBuilder()
    b.work(0, 50)
    b.meet({0: 30}, 40, members=(0, 1), elements=1_000_000)
    b.meet({0: 100}, 20, members=(0, 1), elements=1_000_000)
    b.meet({0: 60}, 20, members=(0, 1), name="broadcast", stream="stream 21")
    found = communication(b.timeline(), 0)
    assert found is not None
    assert found.count == 3
    assert found.kernel_s == pytest.approx(80e-6)
    assert found.busy_s == pytest.approx(70e-6)  # 30..80 and 100..120
    assert found.exposed_s == pytest.approx(50e-6)  # less 30..50
    first, second = found.sorts
    assert (first.name, first.count) == ("all_reduce", 2)
    assert first.transfer_s == pytest.approx(30e-6)
    assert first.message_bytes == 4_000_000
    assert first.algorithm_bytes_per_s == pytest.approx(4_000_000 / 30e-6)
    assert first.bus_bytes_per_s == pytest.approx(4_000_000 / 30e-6)  # 2 ranks: factor 1
    assert first.is_lower_bound
    assert first.waiting_s is None
    assert second.name == "broadcast"


def test_a_group_of_one_waits_for_nobody() -> None:
    b = RankBuilder()
    b.meet({0: 30}, 40)
    found = communication(b.timeline(), 0)
    assert found is not None
    assert not found.sorts[0].is_lower_bound
    assert found.sorts[0].bus_bytes_per_s == 0


def test_sizes_that_are_not_recorded_give_no_bandwidth() -> None:
    b = RankBuilder()
    b.meet({0: 0}, 40, group=None, kernel="ncclKernel_AllReduce_RING_LL_Sum_float")
    found = communication(b.timeline(), 0)
    assert found is not None
    (sort,) = found.sorts
    assert sort.name == "all_reduce"
    assert sort.message_bytes is None
    assert sort.bus_bytes_per_s is None


def test_no_communication_no_answer() -> None:
    b = TimelineBuilder()
    b.work(0, 10)
    assert communication(b.build(), 0) is None
    assert communication(b.build(), 5) is None


def test_a_predicted_timeline_has_it_too() -> None:
    b = TimelineBuilder()
    b.work(0, 10, kind="communication", name="all_gather", stream="link")
    found = communication(b.build(), 0)
    assert found is not None
    assert found.sorts[0].name == "all_gather"
    assert found.busy_s == pytest.approx(10e-6)
