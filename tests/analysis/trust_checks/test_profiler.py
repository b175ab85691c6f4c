"""Warm-up and the profiler's own work."""

from __future__ import annotations

from rank_builder import RankBuilder

from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust_checks import profiler
from gpuscope.analysis.trust_checks.facts import rank_facts


def remarks(b: RankBuilder) -> dict[str, Remark]:
    found = profiler.check(rank_facts(b.timeline(), 0, several=False))
    return {remark.code: remark for remark in found}


def steps(lengths_us: list[float]) -> RankBuilder:
    b, now = RankBuilder(), 0.0
    for length in lengths_us:
        b.step(now, now + length)
        b.work(now + 5, now + length - 5, launch_us=now)
        now += length
    return b


def test_even_steps_without_overhead() -> None:
    assert remarks(steps([100, 101, 99, 100])) == {}


def test_a_long_first_step_is_a_warm_up_with_its_causes() -> None:
    b = steps([400, 100, 100, 100])
    b.host(10, 210, kind="other", name="cudaMalloc")
    found = remarks(b)["warm_up"]
    assert found.severity == "doubt"
    assert "allocating device memory 200 µs" in found.sentence


def test_waiting_in_a_collective_is_no_warm_up() -> None:
    """Another rank's recording began late: the first collective waits for it."""
    b, now = RankBuilder(), 0.0
    for length in (400.0, 100.0, 100.0, 100.0):
        b.step(now, now + length)
        b.work(now + 5, now + 60, launch_us=now)
        b.work(now + 60, now + length - 5, kind="communication", launch_us=now + 1)
        now += length
    assert "warm_up" not in remarks(b)


def test_two_steps_are_too_few_to_tell() -> None:
    assert remarks(steps([400, 100])) == {}


def test_the_profiler_s_own_time() -> None:
    b = steps([100, 100, 100])
    b.host(50, 80, kind="other", name="Activity Buffer Request")
    found = remarks(b)["profiler_overhead"]
    assert "30.0 µs" in found.sentence
    assert found.severity == "note"
    heavy = steps([100, 100, 100])
    heavy.host(50, 150, kind="other", name="Activity Buffer Request")
    assert remarks(heavy)["profiler_overhead"].severity == "doubt"
    small = steps([1000, 1000, 1000])
    small.host(50, 52, kind="other", name="Activity Buffer Request")
    assert remarks(small) == {}
