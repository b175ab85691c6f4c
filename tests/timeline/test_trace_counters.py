"""Counters that follow from events, counted by hand; and as a trace has them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "analysis"))

from builders import TimelineBuilder, streaming, with_sizes

from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.perfetto import trace_events, write_chrome_trace
from gpuscope.timeline.trace_counters import trace_counters
from gpuscope.timeline.types import Timeline


def example() -> Timeline:
    b = TimelineBuilder(origin="measured")
    b.work(10, 20, launch_us=0, cost=streaming(10.0, read_bytes=1e6, written_bytes=1e6))
    b.work(20, 30, launch_us=5, cost=streaming(10.0, read_bytes=3e6, written_bytes=1e6))
    b.copy(40, 50, call_us=(32, 33), name="Memcpy HtoD")
    return with_sizes(b.build(), {"Memcpy HtoD": 1000})


def points(timeline: Timeline, name: str) -> list[tuple[int, float]]:
    (found,) = [each for each in trace_counters(timeline, 0) if each.name == name]
    return list(zip((found.time_ns // 1000).tolist(), found.value.tolist(), strict=True))


def test_the_queue_holds_what_was_launched_and_has_not_begun() -> None:
    assert points(example(), "launch queue") == [
        (0, 1.0), (5, 2.0), (10, 1.0), (20, 0.0), (32, 1.0), (40, 0.0),
    ]  # fmt: skip


def test_rates_are_bytes_over_the_time_they_took() -> None:
    timeline = example()
    assert points(timeline, "copies HtoD") == [(40, pytest.approx(1e8)), (50, 0.0)]
    traffic = points(timeline, "device memory traffic of kernels")
    assert traffic == [(10, pytest.approx(2e11)), (20, pytest.approx(4e11)), (30, 0.0)]
    assert not [each for each in trace_counters(timeline, 0) if "arithmetic" in each.name]


def test_a_timeline_without_events_has_none() -> None:
    assert list(trace_counters(TimelineBuilder().build(), 0)) == []


def test_a_trace_written_again_has_each_counter_once(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    write_chrome_trace(example(), first)
    again = read_trace(first)
    assert {"launch queue", "copies HtoD"} <= {counter.name for counter in again.counters}
    write_chrome_trace(again, second)

    def counted(timeline: Timeline) -> list[object]:
        return [(r["name"], r["ts"]) for r in trace_events(timeline) if r["ph"] == "C"]

    assert sorted(map(str, counted(read_trace(second)))) == sorted(map(str, counted(again)))
    assert np.isfinite([c.value.max() for c in again.counters]).all()
