"""Chrome traces of begins and ends, and several recordings in one file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gpuscope.errors import InputFileError
from gpuscope.loading import load
from gpuscope.timeline.kineto import read_trace

PLACE = {"pid": 0, "tid": 7}


def begin(name: str, ts: float) -> dict[str, object]:
    return {
        "ph": "B", "name": name, "cat": "kernel", "ts": ts, "args": {"stream": 7, "device": 0},
        **PLACE,
    }  # fmt: skip


def end(ts: float) -> dict[str, object]:
    return {"ph": "E", "ts": ts, **PLACE}


def test_pairs_become_events_and_nest(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    # An end too many, a begin without an end, an end before its begin: left out.
    events = [end(0), begin("a", 1), begin("b", 2), end(4), end(9.5), begin("c", 12), end(11)]
    path.write_text(json.dumps([*events, begin("d", 13)]))
    timeline = read_trace(path)
    found = {
        timeline.names[name]: (start, duration)
        for name, start, duration in zip(
            timeline.events.name.tolist(),
            timeline.events.start_ns.tolist(),
            timeline.events.duration_ns.tolist(),
            strict=True,
        )
    }
    assert found == {"a": (0, 8500), "b": (1000, 2000)}
    assert timeline.sources[0].path == str(path)
    packed = tmp_path / "t.json.gz"
    packed.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    assert len(read_trace(packed).events) == 2


@pytest.mark.parametrize("events", [[begin("a", 1)], [end(1)], [{"ph": "B"}, 3, None]])
def test_halves_alone_are_no_events(tmp_path: Path, events: list[object]) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(events))
    with pytest.raises(InputFileError, match="holds no events"):
        read_trace(path)


def test_a_second_recording_in_the_file_is_told(tmp_path: Path) -> None:
    one = {"traceEvents": [{**begin("a", 1), "ph": "X", "dur": 3}]}
    path = tmp_path / "t.json"
    path.write_text(json.dumps(one) * 2)
    assert any("several recordings" in note for note in load(path).assumptions)
