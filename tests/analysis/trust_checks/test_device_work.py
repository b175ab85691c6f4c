"""Checks of a rank's device events, each when it speaks and when it must not."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rank_builder import RankBuilder

from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust import trust
from gpuscope.analysis.trust_checks import device_work
from gpuscope.analysis.trust_checks.facts import rank_facts
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.types import RecordedDevice, Source, Timeline

TRACES = Path(__file__).parents[2] / "data" / "traces"


def remarks(timeline: Timeline) -> dict[str, Remark]:
    found = list(device_work.check(rank_facts(timeline, 0, several=False)))
    assert len({remark.code for remark in found}) == len(found)
    return {remark.code: remark for remark in found}


def chain(count: int = 50) -> RankBuilder:
    b = RankBuilder()
    for i in range(count):
        b.work(10 * i + 4, 10 * i + 12, launch_us=10 * i)
    return b


def with_events(timeline: Timeline, rows: Any, **columns: Any) -> Timeline:
    """Change columns of some events in place of theirs."""
    changed = {}
    for name, values in columns.items():
        column = getattr(timeline.events, name).copy()
        column[rows] = values
        changed[name] = column
    return replace(timeline, events=replace(timeline.events, **changed))


def device(timeline: Timeline) -> Any:
    return np.flatnonzero(timeline.events.kind < 4)


def test_a_sound_chain_has_no_remark() -> None:
    assert remarks(chain().timeline()) == {}


def test_launches_but_no_work_at_all() -> None:
    b = RankBuilder()
    for i in range(5):
        b.host(10 * i, 10 * i + 5, kind="launch", name="cudaLaunchKernel")
    found = remarks(b.timeline())["no_device_work"]
    assert found.severity == "cannot"
    assert "5 launch calls" in found.sentence


def test_copies_and_graphs_need_not_have_work_of_their_own() -> None:
    b = chain()
    for name in ("cudaMemcpyAsync", "cudaMemsetAsync"):
        for i in range(20):
            b._add(
                10 * i,
                10 * i + 1,
                name,
                "launch",
                b.lane("host main", "host", 0),
                -1,
                -1,
                10_000 + i,
            )
    assert "missing_work" not in remarks(b.timeline())


def test_launches_after_the_last_kernel_are_the_cut_end() -> None:
    b = chain()
    for i in range(10):
        b._add(
            600 + i,
            601 + i,
            "cudaLaunchKernel",
            "launch",
            b.lane("host main", "host", 0),
            -1,
            -1,
            10_000 + i,
        )
    found = remarks(b.timeline())
    assert set(found) == {"cut_end"}
    assert "last 10 launches" in found["cut_end"].sentence


def test_work_from_before_the_recording() -> None:
    b = RankBuilder()
    b.work(0, 10)
    b.work(10, 20)
    for i in range(2, 50):
        b.work(10 * i + 4, 10 * i + 12, launch_us=10 * i)
    found = remarks(b.timeline())["begun_midway"]
    assert found.severity == "note"
    assert "2 of 50" in found.sentence


def test_no_launch_at_all_leaves_causes_unknown() -> None:
    b = RankBuilder()
    b.work(0, 10)
    found = remarks(b.timeline())["no_launches"]
    assert (found.severity, found.about) == ("cannot", ("host",))


def test_most_work_without_launch_is_a_doubt() -> None:
    b = chain(4)
    for i in range(20):
        b.work(100 + 10 * i, 105 + 10 * i)
    assert remarks(b.timeline())["work_without_launch"].severity == "doubt"


def graphs(kernels: list[int]) -> Timeline:
    """Graph launches, each with so many kernels."""
    b = RankBuilder()
    host = b.lane("host main", "host", 0)
    stream = b.lane("stream 7", "stream", 0)
    now = 0.0
    for number, count in enumerate(kernels):
        b._add(now, now + 2, "cudaGraphLaunch", "launch", host, -1, -1, number)
        for i in range(count):
            b._add(now + 5 + 3 * i, now + 7 + 3 * i, "k", "kernel", stream, -1, -1, number)
        now += 100
    timeline = b.timeline()
    assert timeline.recorded is not None
    graph = np.full(len(timeline.recorded), 1, np.int64)
    return replace(timeline, recorded=replace(timeline.recorded, graph=graph))


def test_whole_graphs_are_fine() -> None:
    assert remarks(graphs([20] * 10)) == {}


def test_a_graph_launch_with_too_few_kernels() -> None:
    found = remarks(graphs([20] * 9 + [3]))["graph_under_recorded"]
    assert found.severity == "doubt"
    assert "1 of 10" in found.sentence


def test_graphs_without_any_kernel() -> None:
    b = chain()
    for i in range(5):
        b._add(
            100 * i,
            100 * i + 2,
            "cudaGraphLaunch",
            "launch",
            b.lane("host main", "host", 0),
            -1,
            -1,
            10_000 + i,
        )
    assert remarks(b.timeline())["graph_not_recorded"].severity == "cannot"


def test_impossible_durations() -> None:
    timeline = chain().timeline()
    rows = device(timeline)
    negative = with_events(timeline, rows[:1], duration_ns=-5)
    assert remarks(negative)["negative_durations"].severity == "cannot"
    huge = with_events(timeline, rows[-1:], duration_ns=5 * 3_600 * 10**9)
    assert "huge_durations" in remarks(huge)


def test_kernels_inside_kernels_of_one_stream() -> None:
    b = chain(40)
    for i in range(4):
        b.work(10 * i + 5, 10 * i + 11, launch_us=10 * i + 1)
    found = remarks(b.timeline())["overlapping_kernels"]
    assert found.severity == "doubt"
    assert "4 of 44" in found.sentence


def test_streams_may_overlap_and_dependents_may_begin_early() -> None:
    b = RankBuilder()
    for i in range(40):
        b.work(10 * i, 10 * i + 13, launch_us=10 * i - 5)  # begins 3 us before the last one ends
        b.work(10 * i, 10 * i + 9, stream="stream 9", launch_us=10 * i - 4)
    assert remarks(b.timeline()) == {}


def test_branches_of_a_graph_may_overlap() -> None:
    timeline = graphs([20] * 5)
    rows = device(timeline)
    both = with_events(timeline, rows, duration_ns=50_000)
    assert "overlapping_kernels" not in remarks(both)


def test_work_before_its_launch() -> None:
    b = RankBuilder()
    for i in range(40):
        b.work(10 * i, 10 * i + 5, launch_us=10 * i + (6 if i < 4 else -3))
    found = remarks(b.timeline())["work_before_launch"]
    assert found.severity == "doubt"
    assert "4 of 40" in found.sentence
    assert "6.00 µs" in found.sentence


def test_a_kernel_that_starts_early_and_ends_after_its_predecessor_is_sound() -> None:
    """cuDNN's dependents on Hopper lie mostly inside the kernel before, and end after it."""

    def recorded(ends_us: float, capability: tuple[int, int]) -> dict[str, Remark]:
        b = RankBuilder()
        for at in range(30):
            b.work(at * 200.0, at * 200.0 + 100.0, name="dgrad")
            b.work(at * 200.0 + 70.0, at * 200.0 + ends_us, name="init_device_work")
        board = RecordedDevice(0, "NVIDIA H200", compute_capability=capability)
        b.sources.append(Source(0, "rank-0.json", rank_known=True, devices=(board,)))
        return remarks(b.timeline())

    assert "overlapping_kernels" not in recorded(103.0, (9, 0))
    assert recorded(95.0, (9, 0))["overlapping_kernels"].severity == "cannot"
    assert "overlapping_kernels" in recorded(103.0, (8, 0))


def test_a_clean_recording_of_resnet_raises_no_doubt() -> None:
    timeline = read_trace(TRACES / "h200" / "resnet50_channels_last" / "rank-0.json.gz")
    found = trust(timeline)
    assert found is not None
    assert {remark.severity for remark in found.remarks} == {"note"}


def test_a_file_that_ends_before_its_device_work_is_told_so() -> None:
    """It was told that only the host was recorded."""
    b = RankBuilder()
    b.host(0, 4)
    b.sources.append(Source(0, "rank-0.json", rank_known=True, cut_off=True))
    found = remarks(b.timeline())["no_device_work"]
    assert "ends in the middle" in found.sentence
    assert "only the host" not in found.sentence


def test_launches_of_a_graphs_capture_start_no_work() -> None:
    """A recording of a capture was told that events had been dropped."""

    def recorded(begin: str, end: str) -> dict[str, Remark]:
        b = chain()
        host = b.lane("host main", "host", 0)
        b._add(1000, 1001, begin, "other", host, -1, -1, -1)
        for at in range(20):
            b._add(1002 + at, 1002.5 + at, "cudaLaunchKernel", "launch", host, -1, -1, 9000 + at)
        b._add(1030, 1031, end, "other", host, -1, -1, -1)
        b.work(2000, 2010, launch_us=1990)
        return remarks(b.timeline())

    assert "missing_work" not in recorded("cudaStreamBeginCapture", "cudaStreamEndCapture_v2")
    assert "missing_work" in recorded("cudaStreamIsCapturing", "cudaStreamEndCapture_v2")


def test_negative_durations_are_no_dropped_events(tmp_path: Path) -> None:
    """The reader leaves such work out; its launches were said to have lost their events."""
    raw = gzip.decompress((TRACES / "h200" / "compute_bound" / "rank-0.json.gz").read_bytes())
    document = json.loads(raw)
    kernels = [e for e in document["traceEvents"] if e.get("cat") == "kernel"]
    for kernel in kernels[::20]:
        kernel["dur"] = -5.0
    path = tmp_path / "negative.json"
    path.write_text(json.dumps(document))
    timeline = read_trace(path)
    assert timeline.sources[0].events_negative == len(kernels[::20])
    found = remarks(timeline)
    assert "missing_work" not in found
    assert f"{len(kernels[::20])} device events" in found["negative_durations"].sentence
    assert found["negative_durations"].severity == "cannot"
