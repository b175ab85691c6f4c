"""What a rank did between two collectives, and the reason it gives."""

from __future__ import annotations

import numpy as np
import pytest
from rank_builder import RankBuilder

from gpuscope.analysis.collective_match import match_collectives
from gpuscope.analysis.columns import OpColumns
from gpuscope.analysis.host_activity import Hosts
from gpuscope.analysis.lateness import (
    BEGAN,
    COMMUNICATING,
    COMPUTE,
    DISPATCH,
    SYNC,
    UNKNOWN,
    Before,
    before_calls,
    instead,
    late_reasons,
    rank_work,
)
from gpuscope.analysis.recorded_types import LATE_REASONS


def looked_at(b: RankBuilder, more: tuple[bool, ...] = (True, True)) -> tuple[Before, list[str]]:
    """What was done before each call, and the reason of each collective."""
    timeline = b.timeline()
    match = match_collectives(timeline)
    ops = OpColumns.of(timeline)
    hosts = Hosts(timeline, ops)
    before = before_calls(
        match, {rank: rank_work(timeline, rank, hosts, ops) for rank in match.calls.ranks}
    )
    last = [
        max(np.flatnonzero(match.id == i).tolist(), key=lambda row: int(match.arrival_ns[row]))
        for i in range(match.count)
    ]
    reasons = late_reasons(match, before, np.array(last), np.array(more))
    return before, [LATE_REASONS[i] for i in reasons.tolist()]


def test_every_nanosecond_since_the_last_collective_has_a_place() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 0}, 10)
    b.work(10, 60, rank=0, launch_us=-5)
    b.work(10, 30, rank=1, launch_us=-5)
    b.meet({0: 60, 1: 50}, 10)
    before, _ = looked_at(b)
    assert before.spent_ns[:, BEGAN].sum() == 0
    second = np.flatnonzero(before.row >= 0)
    length = {60: 60_000, 50: 50_000}  # since each came to the first, at 0
    for row in second.tolist():
        assert int(before.spent_ns[row].sum()) in length.values()
    assert sorted(before.spent_ns[second, COMPUTE].tolist()) == [20_000, 50_000]
    assert before.spent_ns[second, COMMUNICATING].tolist() == [10_000, 10_000]


def test_more_kernels_are_the_reason() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 0}, 10)
    b.work(10, 60, rank=0, launch_us=-5)
    b.work(10, 30, rank=1, launch_us=-5)
    b.meet({0: 60, 1: 30}, 10)
    assert looked_at(b)[1][1] == "more work"


def test_a_synchronisation_on_the_late_rank() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 0}, 10)
    b.host(11, 95, kind="sync", name="cudaStreamSynchronize", rank=1)
    for rank, begin in ((0, 20.0), (1, 100.0)):
        b.work(begin, begin + 10, rank=rank, launch_us=begin - 3)
        b.host(begin - 4, begin - 2, rank=rank)
    b.meet({0: 30, 1: 110}, 10, launch_before_us=5)
    before, reasons = looked_at(b)
    assert reasons[1] == "host synchronising"
    assert int(before.spent_ns[:, SYNC].max()) == pytest.approx(84_000, abs=6_000)


def test_lateness_that_is_carried_on_keeps_its_reason() -> None:
    """Communication beside computation: the late rank stays late for the same reason."""
    b = RankBuilder()
    b.meet({0: 0, 1: 0}, 1)
    b.host(1, 200, name="aten::slow", rank=1)
    b.host(1, 3, rank=0)
    for rank, late in ((0, 0.0), (1, 200.0)):
        for i in range(3):
            begin = 10 + late + 50 * i
            b.work(begin, begin + 50, rank=rank, launch_us=3 + late + i)
    for i in range(3):
        b.meet(
            {0: 60 + 50.0 * i if i == 0 else 262.0 + 50 * i - 50, 1: 260 + 50.0 * i},
            2,
            launch_before_us=4,
        )
    assert looked_at(b, (False, False))[1][1:] == ["host dispatching"] * 3


def test_where_nothing_is_recorded_nothing_is_claimed() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 0}, 10)
    b.meet({0: 40, 1: 90}, 10)
    before, reasons = looked_at(b)
    assert reasons[1] == "unknown"
    assert before.spent_ns[:, UNKNOWN].max() == 80_000


def test_what_was_done_instead_is_named() -> None:
    b = RankBuilder()
    b.work(0, 30, name="big", launch_us=-9)
    b.work(30, 40, name="small", launch_us=-8)
    b.host(41, 90, name="aten::index")
    b.work(100, 110, launch_us=91)
    timeline = b.timeline()
    ops = OpColumns.of(timeline)
    work = rank_work(timeline, 0, Hosts(timeline, ops), ops)
    assert instead(timeline, work, 0, 100_000, COMPUTE) == ("big", pytest.approx(30e-6))
    name, time_s = instead(timeline, work, 0, 100_000, DISPATCH)
    assert name == "aten::index"
    assert time_s == pytest.approx(49e-6, abs=1e-6)
    assert instead(timeline, work, 0, 100_000, COMMUNICATING) == ("", 0.0)
