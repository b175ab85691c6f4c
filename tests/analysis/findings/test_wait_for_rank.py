"""Waiting for a rank, its kind by the reason, and when it is not worth a word."""

from __future__ import annotations

import pytest
from rank_builder import RankBuilder

from gpuscope.analysis import analyze
from gpuscope.analysis.types import Finding
from gpuscope.document.text import render


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
    assert "rank 1" in render(finding.title, "zh")


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
    analysis = analyze(b.timeline())
    assert [f for f in analysis.findings if "rank" in f.title] == []
    assert analysis.ranks is not None
    assert analysis.ranks.straggler is None
    assert "the recorder's, not the program's" in analysis.ranks.sentence


def hosts(begin_us: list[float], step_us: list[float], steps: int = 6) -> RankBuilder:
    """Ranks whose hosts begin and take as long as given; they never wait for their devices.

    In each step a device works 1 ms and then meets the others; hosts run ahead of their devices.
    """
    b, free = RankBuilder(), dict.fromkeys(range(len(begin_us)), 0.0)
    for number in range(steps):
        arrivals, launched = {}, {}
        for rank, (begin, step) in enumerate(zip(begin_us, step_us, strict=True)):
            now = begin + number * step
            b.step(now, now + step, rank)
            b.host(now, now + step - 1, name="aten::mm", rank=rank)
            launched[rank] = now + step / 2
            start = max(launched[rank] + 5, free[rank])
            b.work(start, start + 1_000, rank=rank, launch_us=launched[rank])
            arrivals[rank] = start + 1_001
        leave = b.meet(arrivals, 200, launch_before_us=50)
        free = dict.fromkeys(free, leave + 1)
    return b


def test_a_late_recording_does_not_hide_the_slowest_host() -> None:
    """Rank 0 begins 31 ms late and comes last every time; the host of rank 2 is the slow one."""
    analysis = analyze(hosts([31_000, 0, 1_300, 5_000], [11_500, 9_700, 15_900, 8_400]).timeline())
    story = analysis.ranks
    assert story is not None
    assert [share.times_last for share in story.ranks] == [6, 0, 0, 0]
    assert story.straggler is None
    assert set(story.waiting_by_reason) == {"began late"}
    (finding,) = [f for f in analysis.findings if "rank" in f.title]
    assert finding.kind == "host_bound"
    assert "The host of rank 2 is the slowest: a step takes it 15.9 ms, the next 11.5" in (
        finding.title
    )
    assert "the others 8.40 ms to 11.5 ms" in finding.evidence
    assert "the recording of rank 0 began late" in finding.evidence
    assert "rank 2 的主机最慢" in render(finding.title, "zh")
    assert finding.max_gain_s == pytest.approx(4.4e-3, rel=0.01)


def test_a_slow_host_that_also_began_late_stays_the_cause() -> None:
    story = analyze(hosts([5_000, 0, 0], [15_000, 9_000, 9_000]).timeline()).ranks
    assert story is not None
    assert story.straggler is not None
    assert (story.straggler.rank, story.straggler.reason) == (0, "host dispatching")
    assert story.straggler.seen == "steps"


def test_equal_hosts_behind_a_late_recording_are_not_blamed() -> None:
    found_ = analyze(hosts([31_000, 0, 0], [9_000, 9_100, 9_000]).timeline()).findings
    assert [f for f in found_ if "host of rank" in f.title] == []


def test_one_step_is_no_verdict_on_a_rank() -> None:
    b = RankBuilder()
    for rank, late in ((0, 0), (1, 400)):
        b.step(0, 1_500, rank)
        b.host(0, late + 100, name="aten::slow", rank=rank)
        b.work(10, 60, rank=rank, launch_us=5)
    now = b.meet({0: 70, 1: 70}, 20, launch_before_us=30)
    for rank, late in ((0, 0), (1, 400)):
        b.work(now + late + 10, now + late + 60, rank=rank, launch_us=now + late + 5)
    b.meet({0: now + 61, 1: now + 461}, 20, launch_before_us=30)
    analysis = analyze(b.timeline())
    assert analysis.ranks is not None
    assert analysis.ranks.straggler is not None
    assert analysis.ranks.straggler.seen == "one step"
    (finding,) = [f for f in analysis.findings if "rank 1" in f.title]
    assert finding.title.startswith("In the one recorded step, the host of rank 1")
    assert render(finding.title, "zh").startswith("在记录的唯一一步中，rank 1")
    assert finding.hint.startswith("Record more steps")
    assert render(finding.hint, "zh").startswith("请记录更多训练步")
