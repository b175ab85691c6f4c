"""Communication that nothing hides."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, find, kernel, streaming
from rank_builder import RankBuilder

from gpuscope.analysis import analyze


def reducing(start_us: float) -> TimelineBuilder:
    b = TimelineBuilder()
    op = b.op("c10d::allreduce_")
    cost = kernel(40, name="all_reduce", kind="collective", lane="link", limiter="link")
    b.work(0, 60, cost=streaming(60), launch_us=-9)
    b.work(
        start_us, start_us + 40, kind="communication", stream="link", cost=cost, op=op, launch_us=-8
    )
    b.step(0, 100)
    return b


def test_exposed_communication_is_found() -> None:
    found = find(reducing(60), "communication_bound")
    assert found is not None
    assert found.max_gain_s == pytest.approx(40e-6)
    assert "40 %" in found.title


def test_the_evidence_tells_hidden_from_exposed() -> None:
    found = find(reducing(40), "communication_bound")
    assert found is not None
    assert found.max_gain_s == pytest.approx(20e-6)
    assert "run for 40.0 µs, of which 20.0 µs are not hidden" in found.evidence


def test_hidden_communication_is_fine() -> None:
    assert find(reducing(15), "communication_bound") is None


def ranked(late_us: float, hidden: bool) -> RankBuilder:
    """Two ranks, ten all-reduces of 60 us each 200 us; rank 1 comes late; hidden or not."""
    b, now = RankBuilder(), 0.0
    for _ in range(10):
        for rank in (0, 1):
            begin = now + (late_us if rank else 0)
            b.work(begin, begin + (200 if hidden else 100), rank=rank, launch_us=now - 900)
        arrivals = {0: now + 100, 1: now + 100 + late_us}
        leave = b.meet(arrivals, 60, launch_before_us=900)
        now = max(leave, now + late_us + 200)
    return b


def test_with_all_ranks_recorded_only_transfer_counts() -> None:
    found = next(
        f
        for f in analyze(ranked(100, hidden=False).timeline()).findings
        if f.kind == "communication_bound"
    )
    assert found.max_gain_s == pytest.approx(10 * 60e-6)
    assert "600 µs of that would stay" in found.evidence


def test_transfer_that_only_waiting_lays_open_does_not_count() -> None:
    kinds = [f.kind for f in analyze(ranked(300, hidden=True).timeline()).findings]
    assert "communication_bound" not in kinds
    assert "wait_for_rank" in kinds or "host_bound" in kinds
