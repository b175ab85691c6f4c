"""Trust on recorded runs: sound ones pass, and each way of spoiling one is noticed."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuscope.analysis.ranks import ranks
from gpuscope.analysis.trust import trust
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.ranks import merge
from gpuscope.timeline.types import Events, Timeline

DATA = Path(__file__).parents[1] / "data" / "traces"
SHARED = Path(__file__).parents[3] / "shared" / "traces"
SOUND = sorted(path.parent.name for path in (DATA / "h200").glob("*/rank-0.json.gz"))


def severe(timeline: Timeline) -> dict[str, str]:
    """Code and severity of the remarks that are no notes."""
    found = trust(timeline)
    assert found is not None
    return {r.code: r.severity for r in found.remarks if r.severity != "note"}


def one(name: str = "host_bound") -> Timeline:
    return read_trace(DATA / "h200" / name / "rank-0.json.gz")


def four(name: str = "ddp_slow_host") -> list[Timeline]:
    return [read_trace(path) for path in sorted((DATA / "4xh200" / name).glob("*.json.gz"))]


def without(timeline: Timeline, rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Timeline:
    """The timeline without some device events."""
    keep = np.ones(len(timeline.events), bool)
    keep[rows] = False
    columns = {name: getattr(timeline.events, name)[keep] for name in Events.__slots__}
    return replace(timeline, events=Events(**columns), recorded=None)


@pytest.mark.parametrize("name", SOUND)
def test_sound_recordings_raise_no_doubt(name: str) -> None:
    assert severe(one(name)) == {}


@pytest.mark.parametrize(
    "name", ["ddp_slow_host", "ddp_imbalance", "fsdp", "tensor_parallel_host_bound"]
)
def test_sound_recordings_of_four_ranks_raise_no_doubt(name: str) -> None:
    assert severe(merge(four(name))) == {}


def test_the_profiler_s_own_hiccup_is_a_note() -> None:
    # One rank stood 2.9 ms in CUPTI's "Activity Buffer Request" in the middle of the recording.
    assert severe(merge(four("ddp_balanced"))) == {}


def test_dropped_kernels_are_noticed() -> None:
    timeline = one()
    device = np.flatnonzero(timeline.events.kind < 4)
    assert severe(without(timeline, device[5::20]))["missing_work"] == "doubt"
    assert severe(without(timeline, device[5::3]))["missing_work"] == "cannot"


def test_a_device_clock_that_runs_ahead_is_noticed() -> None:
    timeline = one()
    events = timeline.events
    start = np.where(events.kind < 4, events.start_ns - 200_000, events.start_ns)
    skewed = replace(timeline, events=replace(events, start_ns=start))
    assert severe(skewed)["work_before_launch"] in ("doubt", "cannot")


def test_two_recordings_mixed_are_noticed() -> None:
    timeline = one("compute_bound")
    events = timeline.events
    rows = np.concatenate((np.arange(len(events)), np.flatnonzero(events.kind < 4)))
    columns = {name: getattr(events, name)[rows] for name in Events.__slots__}
    shift = np.arange(len(rows)) >= len(events)
    columns["start_ns"] = columns["start_ns"] + np.where(shift, 3_000, 0)
    order = np.argsort(columns["start_ns"], kind="stable")
    mixed = Events(**{name: column[order] for name, column in columns.items()})
    found = severe(replace(timeline, events=mixed, recorded=None))
    assert found["overlapping_kernels"] == "cannot"


def test_a_cut_off_file_is_noticed(tmp_path: Path) -> None:
    text = gzip.decompress((DATA / "h200" / "host_bound" / "rank-0.json.gz").read_bytes())
    path = tmp_path / "cut.json"
    path.write_bytes(text[: len(text) * 2 // 3])
    assert severe(read_trace(path))["cut_off"] == "doubt"


def test_a_missing_rank_is_noticed_and_waiting_stays_a_lower_bound() -> None:
    whole = ranks(merge(four()))
    rest = merge([t for t in four() if t.sources[0].rank != 1])
    assert severe(rest)["ranks_missing"] == "doubt"
    story = ranks(rest)
    assert whole is not None
    assert story is not None
    assert not story.complete
    assert story.waiting_s < whole.waiting_s
    assert all(sort.is_lower_bound for sort in story.sorts)


@pytest.mark.parametrize("skew_ns", [-3_000_000, 40_000_000])
def test_a_rank_s_wrong_clock_changes_nothing_but_the_note(skew_ns: int) -> None:
    parts = four()
    plain = ranks(merge(parts))
    events = parts[2].events
    parts[2] = replace(
        parts[2],
        events=replace(events, start_ns=events.start_ns + skew_ns),
        steps=tuple(
            replace(s, start_ns=s.start_ns + skew_ns, end_ns=s.end_ns + skew_ns)
            for s in parts[2].steps
        ),
    )
    timeline = merge(parts)
    story = ranks(timeline)
    found = trust(timeline)
    assert plain is not None
    assert story is not None
    assert found is not None
    assert "clock_skew" in [remark.code for remark in found.remarks]
    assert story.matched == plain.matched
    assert [s.waiting_s for s in story.ranks] == [s.waiting_s for s in plain.ranks]
    assert [s.times_last for s in story.ranks] == [s.times_last for s in plain.ranks]
    assert story.straggler is not None
    assert story.straggler.rank == 1


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("hta/cpu_only", {"no_device_work": "cannot"}),
        ("hta/rank_non_gpu", {"no_device_work": "cannot"}),
        ("hta/amd_trace", {}),
        ("hta/critical_path_alexnet", {}),
        ("hta/nccl_parser_config", {}),
        ("tracelens/h100", {}),
        ("tracelens/inference/vllm_decode_full", {}),
        ("tracelens/inference/sglang_decode", {}),
        ("kineto_tb_samples/resnet50_num_workers_0", {}),
    ],
)
def test_recordings_of_others(path: str, expected: dict[str, str]) -> None:
    if not (SHARED / path).is_dir():
        pytest.skip("these traces are not here")
    for file in sorted((SHARED / path).glob("*.json.gz")):
        assert severe(read_trace(file)) == expected
