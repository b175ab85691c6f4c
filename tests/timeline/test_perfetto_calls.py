"""The trace of a predicted job says who talks to whom, in words that trace readers know."""

from __future__ import annotations

import json
from pathlib import Path

from timeline_programs import call, kernel, ranked, talk

from gpuscope.program.types import ProcessGroup
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.perfetto import write_chrome_trace
from gpuscope.timeline.simulate_ranks import simulate_ranks


def written(path: Path, ranks: int) -> Path:
    group = ProcessGroup("0", "dp", tuple(range(ranks)))
    ops = [call(kernel(20)), talk(30), talk(40, "c10d::broadcast_")]
    simulation = simulate_ranks([ranked(ops, 0, (group,), ranks)], [group.ranks])
    write_chrome_trace(simulation.timeline, path / "job.json")
    return path / "job.json"


def test_calls_have_group_sizes_and_number(tmp_path):
    events = json.loads(written(tmp_path, 4).read_text())["traceEvents"]
    found = [e["args"] for e in events if "Collective name" in e.get("args", {})]
    assert [args["Collective name"] for args in found] == ["all_reduce", "broadcast"]
    assert [args["Seq"] for args in found] == [0, 1]
    assert found[0]["Process Group Name"] == "dp"
    assert found[0]["Process Group Ranks"] == "[0, 1, 2, 3]"
    assert (found[0]["Group size"], found[0]["In msg nelems"]) == (4, 4)


def test_long_lists_of_ranks_are_left_out(tmp_path):
    events = json.loads(written(tmp_path, 64).read_text())["traceEvents"]
    found = [e["args"] for e in events if "Collective name" in e.get("args", {})]
    assert found[0]["Group size"] == 64
    assert "Process Group Ranks" not in found[0]


def test_the_trace_can_be_read_again(tmp_path):
    timeline = read_trace(written(tmp_path, 4))
    assert "link dp" in {lane.name for lane in timeline.lanes}
