"""Waiting for a rank, its kind by the reason, and when it is not worth a word."""

from __future__ import annotations

import pytest
from rank_builder import RankBuilder

from gpuscope.analysis import analyze
from gpuscope.analysis.types import Finding


def found(b: RankBuilder) -> list[Finding]:
    kinds = ("wait_for_rank", "input_bound", "host_bound")
    return [f for f in analyze(b.timeline()).findings if f.kind in kinds and "rank" in f.title]


def run(loader: bool = False, late_us: float = 200.0) -> RankBuilder:
    """Two ranks; rank 1's device idles before each collective, its host in a loader or not."""
    b, now = RankBuilder(), 0.0
    for _ in range(6):
        arrivals = {}
        for rank in (0, 1):
            late = late_us if rank else 0.0
            name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
            if late:
                b.host(now, now + late, name=name if loader else "aten::slow", rank=rank)
            b.work(now + late + 5, now + late + 105, rank=rank, launch_us=now + late + 1)
            arrivals[rank] = now + late + 106
        now = b.meet(arrivals, 20, launch_before_us=30) + 1
    return b


def test_a_loader_on_one_rank_is_input_bound() -> None:
    (finding,) = [f for f in found(run(loader=True)) if "rank 1" in f.title]
    assert finding.kind == "input_bound"
    assert "loading input" in finding.title
    assert "工" not in finding.title
    assert "rank 1" in finding.title_zh


def test_a_late_host_is_host_bound_and_gains_what_the_others_wait() -> None:
    (finding,) = [f for f in found(run()) if "rank 1" in f.title]
    assert finding.kind == "host_bound"
    assert finding.max_gain_s == pytest.approx(6 * 200e-6, rel=0.02)


def test_a_little_waiting_is_usual() -> None:
    assert found(run(late_us=5)) == []


def test_hidden_waiting_costs_nothing() -> None:
    b, now = RankBuilder(), 0.0
    for _ in range(6):
        b.work(now, now + 500, rank=0)
        b.work(now, now + 500, rank=1)
        b.meet({0: now, 1: now + 300}, 50)
        now += 500
    assert found(b) == []


def test_ranks_that_take_turns_wait_for_each_other() -> None:
    b, now = RankBuilder(), 0.0
    for number in range(12):
        for rank in range(4):
            length = 300 if rank == number % 4 else 100
            b.work(now, now + length, rank=rank, launch_us=now - 900)
        arrivals = {r: now + (300 if r == number % 4 else 100) for r in range(4)}
        now = b.meet(arrivals, 10, launch_before_us=900)
    (finding,) = [f for f in analyze(b.timeline()).findings if f.kind == "wait_for_rank"]
    assert "now for one, now for another" in finding.title
    assert finding.max_gain_s == pytest.approx(9 * 200e-6)  # each rank waits in 9 of 12
    assert "equal work" in finding.hint


def test_waiting_for_a_recording_to_begin_is_no_gain() -> None:
    b = RankBuilder()
    for rank, begin in ((0, 0), (1, 5_000)):
        b.step(begin, 6_000, rank)
        b.host(begin, begin + 50, rank=rank)
        b.work(begin + 60, begin + 90, rank=rank, launch_us=begin + 40)
    b.meet({0: 100, 1: 5_100}, 20, launch_before_us=50)
    (finding,) = [f for f in analyze(b.timeline()).findings if f.kind == "wait_for_rank"]
    assert "began later" in finding.title
    assert finding.max_gain_s == pytest.approx(0, abs=1e-9)
