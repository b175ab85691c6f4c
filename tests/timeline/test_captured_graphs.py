"""Graph kernels and the operators of their capture, in a recording as Kineto writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuscope.loading import load
from gpuscope.timeline.captured_graphs import with_captures
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.types import Timeline

Event = dict[str, Any]

FORMS = Path(__file__).parents[1] / "data" / "forms"


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: object) -> Event:
    return {
        "ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid,
        "args": args,
    }  # fmt: skip


def capture(at: float, names: list[str], first: int) -> list[Event]:
    """A capture of a launch under each operator."""
    found = [event("cuda_runtime", "cudaStreamBeginCapture_v10000", at, 1)]
    for i, name in enumerate(names):
        begin = at + 10 * (i + 1)
        found += [
            event("cpu_op", name, begin, 8),
            event("cuda_runtime", "cudaLaunchKernel", begin + 2, 2, correlation=first + i),
        ]
    return [*found, event("cuda_runtime", "cudaStreamEndCapture", at + 500, 1)]


def replay(at: float, names: list[str], correlation: int, graph: int, streams: int = 1):
    found = [event("cuda_runtime", "cudaGraphLaunch", at, 5, correlation=correlation)]
    for i, name in enumerate(names):
        found.append(
            event(
                "kernel", name, at + 10 + 10 * i, 9, tid=7 + i % streams, correlation=correlation,
                device=0, stream=7 + i % streams, **{"graph id": graph, "graph node id": i + 1},
            )
        )  # fmt: skip
    return found


def read(tmp_path: Path, events: list[Event]) -> Timeline:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return with_captures(read_trace(path))


def operators(timeline: Timeline) -> list[str]:
    events = timeline.events
    ops = events.op[events.kind == 0].tolist()
    return [timeline.ops[op].name if op >= 0 else "" for op in ops]


def test_each_replay_has_the_operators_of_its_capture(tmp_path: Path) -> None:
    events = capture(0, ["aten::mm", "aten::add"], 1)
    events += replay(1000, ["gemm", "add"], 10, 3) + replay(2000, ["gemm", "add"], 11, 3)
    timeline = read(tmp_path, events)
    assert operators(timeline) == ["aten::mm", "aten::add"] * 2
    assert "2 graph launches" in str(timeline.notes[-1])
    run = load(tmp_path / "t.json")
    assert {share.label for share in run.analysis.operators} == {"aten::mm", "aten::add"}


def test_graphs_of_equal_length_go_by_their_numbers(tmp_path: Path) -> None:
    events = capture(0, ["aten::mm", "aten::add"], 1) + capture(600, ["aten::bmm", "aten::mul"], 3)
    events += replay(2000, ["a", "b"], 10, 7) + replay(3000, ["a", "b"], 11, 4)
    assert operators(read(tmp_path, events)) == ["aten::bmm", "aten::mul", "aten::mm", "aten::add"]


def test_what_does_not_go_together_stays_without(tmp_path: Path) -> None:
    three = capture(0, ["aten::mm", "aten::add", "aten::mul"], 1)
    assert operators(read(tmp_path, three + replay(1000, ["a", "b"], 10, 3))) == ["", ""]
    two = capture(0, ["aten::mm", "aten::add"], 1)
    assert operators(read(tmp_path, two + replay(1000, ["a", "b"], 10, 3, 2))) == ["", ""]
    both = two + capture(600, ["aten::bmm", "aten::mul"], 3)
    assert operators(read(tmp_path, both + replay(2000, ["a", "b"], 10, 3))) == ["", ""]
    alone = replay(1000, ["a", "b"], 10, 3)
    assert read(tmp_path, alone).notes == ()


def write(path: Path, events: list[Event], **header: object) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, **header, "traceEvents": events}))
    return path


def test_a_capture_in_a_file_of_its_own_is_no_rank(tmp_path: Path) -> None:
    """As serving engines record: the capture at the start, replays under load."""
    names = ["aten::mm", "aten::gelu", "aten::mm"]
    write(tmp_path / "capture.json", capture(0, names, first=100))
    write(tmp_path / "steps.json", replay(0, ["k1", "k2", "k3"], 7, graph=1))
    run = load(tmp_path)
    assert run.timeline is not None
    assert [lane.rank for lane in run.timeline.lanes if lane.kind == "stream"] == [0]
    assert operators(run.timeline) == names
    assert any("1 graph launches" in note for note in run.assumptions)


def test_captures_go_to_the_rank_that_they_state(tmp_path: Path) -> None:
    for rank, name in enumerate(("aten::mm", "aten::bmm")):
        stated = {"distributedInfo": {"rank": rank, "world_size": 2}}
        write(tmp_path / f"capture-{rank}.json", capture(0, [name], first=100), **stated)
        write(tmp_path / f"steps-{rank}.json", replay(0, ["k"], 7, graph=1), **stated)
    run = load(tmp_path)
    assert run.timeline is not None
    assert len(run.ranks) == 2
    assert operators(run.timeline) == ["aten::mm", "aten::bmm"]


def test_a_capture_of_another_length_says_nothing(tmp_path: Path) -> None:
    write(tmp_path / "capture.json", capture(0, ["aten::mm"], first=100))
    write(tmp_path / "steps.json", replay(0, ["k1", "k2"], 7, graph=1))
    run = load(tmp_path)
    assert run.timeline is not None
    assert operators(run.timeline) == ["", ""]
    assert any("as many kernels" in note for note in run.assumptions)


@pytest.mark.parametrize("names", [["graph"], ["replay", "capture"]])
def test_recorded_replays_have_the_operators_of_their_capture(names: list[str]) -> None:
    """On an H200: three linear layers and their GELUs, captured, replayed twice."""
    run = load([FORMS / f"{name}.json.gz" for name in names])
    assert run.timeline is not None
    told = [name for name in operators(run.timeline) if name != "aten::fill_"]
    assert told == ["aten::addmm", "aten::gelu"] * 6
    assert any("2 graph launches" in note for note in run.assumptions)
