from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from measure_builders import timeline

from gpuscope.measurement.steady import steady
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS, Counter, Step

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"


def _four_steps():
    """Marks of 10 ns each; the device takes 30, 20, 20, 20 and runs behind."""
    host = [("launch", 1, 1), ("launch", 11, 1), ("launch", 21, 1), ("launch", 31, 1)]
    device = [(5, 30, 0), (40, 20, 1), (60, 20, 2), (80, 20, 3)]
    return timeline(host, device, [(0, 10), (10, 20), (20, 30), (30, 40)])


def test_the_first_step_and_what_follows_the_last_go() -> None:
    found = steady(_four_steps())
    assert found.steps == (Step(40, 60), Step(60, 80))
    device = found.events.kind < DEVICE_KINDS
    assert found.events.start_ns[device].tolist() == [40, 60]
    assert found.recorded.event.tolist() == np.flatnonzero(device).tolist()
    # Their launches stay, and are pointed at where they are now.
    assert found.events.start_ns[found.recorded.launch].tolist() == [11, 21]


def test_only_the_last_steps_are_kept_if_asked() -> None:
    assert steady(_four_steps(), most=1).steps == (Step(60, 80),)
    assert steady(_four_steps(), most=2).steps == (Step(40, 60), Step(60, 80))
    assert steady(_four_steps(), most=9).steps == (Step(40, 60), Step(60, 80))


def test_launches_of_work_that_is_cut_go_with_it() -> None:
    """The host is a step ahead: the last step's launch lies inside, its work does not."""
    host = [("launch", 1, 1), ("launch", 11, 1), ("launch", 41, 1), ("operator", 45, 5)]
    device = [(5, 30, 0), (40, 20, 1), (60, 20, 2)]
    found = steady(timeline(host, device, [(0, 10), (10, 20), (40, 50)]))
    assert found.steps == (Step(40, 60),)
    launches = found.events.start_ns[found.events.kind == EVENT_KINDS.index("launch")]
    assert launches.tolist() == [11]
    assert 45 in found.events.start_ns  # what the host does meanwhile stays


def test_a_launch_far_ahead_of_its_step_stays() -> None:
    host = [("launch", 1, 1), ("launch", 2, 1), ("launch", 21, 1), ("launch", 31, 1)]
    device = [(5, 30, 0), (45, 5, 1), (40, 20, 2), (80, 20, 3)]
    found = steady(timeline(host, device, [(0, 10), (20, 30), (30, 40)]))
    assert found.steps == (Step(40, 80),)
    launches = found.events.start_ns[found.recorded.launch]
    assert sorted(launches.tolist()) == [2, 21]


def test_a_single_window_stays() -> None:
    host = [("launch", 1, 1), ("launch", 11, 1)]
    found = steady(timeline(host, [(5, 30, 0), (40, 20, 1)], [(0, 10), (10, 20)]))
    assert found.steps == (Step(5, 40),)
    assert len(found.recorded) == 1


def test_without_marks_nothing_is_cut() -> None:
    before = timeline([("launch", 1, 1)], [(5, 30, 0)])
    assert steady(before).events is before.events


def test_without_launches_nothing_is_cut() -> None:
    before = timeline([("operator", 1, 1)], [(50, 30, -1)], [(0, 10), (10, 20), (20, 30)])
    found = steady(before)
    assert found.events is before.events
    assert found.steps == before.steps


@pytest.mark.skipif(not TRACES.is_dir(), reason="the traces are not there")
def test_a_device_that_runs_behind_its_host() -> None:
    """The host marks a first step of 35 ms that the device needs 98 ms for."""
    from gpuscope.timeline.kineto import read_trace

    name = "hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"
    before = read_trace(TRACES / name)
    marked = [(step.end_ns - step.start_ns) / 1e6 for step in before.steps]
    assert min(marked) < 40
    found = steady(before)
    lengths = [(step.end_ns - step.start_ns) / 1e6 for step in found.steps]
    assert len(lengths) == 3
    assert all(95 < length < 98 for length in lengths)
    assert found.steps[0].end_ns == found.steps[1].start_ns
    rows = found.recorded.launch[found.recorded.launch >= 0]
    kept = before.recorded.launch[before.recorded.launch >= 0]
    assert set(found.events.start_ns[rows]) <= set(before.events.start_ns[kept])


def test_counters_keep_the_value_that_holds_at_the_begin() -> None:
    from dataclasses import replace

    counter = Counter(
        "allocated", "bytes", np.array([0, 35, 50, 70, 90]), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    )
    found = steady(replace(_four_steps(), counters=(counter,))).counters[0]
    assert found.time_ns.tolist() == [35, 50, 70]
    assert found.value.tolist() == [2.0, 3.0, 4.0]


def test_ranks_are_cut_at_the_same_moments() -> None:
    """Rank 1 begins each step 10 later: that is idle time of its steps, not another window."""
    from dataclasses import replace

    from gpuscope.timeline.ranks import merge
    from gpuscope.timeline.types import Lane, Source

    def rank(number: int, late: int):
        host = [("launch", 100 * i + late, 1) for i in range(4)]
        host += [("operator", 100 * i + 1, 3) for i in range(4)]
        device = [(100 * i + late + 5, 80 - late, i) for i in range(4)]
        one = timeline(host, device, [(100 * i, 100 * i + 99) for i in range(4)])
        lanes = tuple(Lane(lane.name, lane.kind, number, lane.device) for lane in one.lanes)
        steps = tuple(replace(step, rank=number) for step in one.steps)
        return replace(one, lanes=lanes, steps=steps, sources=(Source(number, ""),))

    found = steady(merge([rank(0, 10), rank(1, 20)]))
    own = {r: [(s.start_ns, s.end_ns) for s in found.steps if s.rank == r] for r in (0, 1)}
    assert own[0] == own[1] == [(115, 215), (215, 315)]
    lanes = [i for i, lane in enumerate(found.lanes) if lane.rank == 1]
    assert np.isin(found.events.lane, lanes).any()
