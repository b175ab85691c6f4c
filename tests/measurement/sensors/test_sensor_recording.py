from __future__ import annotations

import json
from pathlib import Path

import pytest
from sensor_stand_ins import Nvml

from gpuscope.errors import InputFileError
from gpuscope.measurement.sensors import Reading, Recorder, Replay
from gpuscope.measurement.sensors.nvidia import open_with


def test_what_was_recorded_is_played_again(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    recorder = Recorder(open_with(Nvml(refuse=("nvmlDeviceGetPowerUsage",)), 0))
    said = [recorder.read(), recorder.read(processes=True)]
    recorder.save(tmp_path / "r.json")
    replay = Replay.load(tmp_path / "r.json")
    assert [replay.read(), replay.read()] == said
    assert replay.read() == said[-1]
    assert replay.info == recorder.info
    assert said[0].power_w is None
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


def test_an_empty_replay() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Replay([])


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"schema": "gpuscope.run"}',
        json.dumps({"schema": "gpuscope.sensor", "info": {}, "readings": [{}]}),
        json.dumps({"schema": "gpuscope.sensor", "info": 3, "readings": 4}),
    ],
)
def test_a_file_that_is_no_recording(tmp_path: Path, content: str) -> None:
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(InputFileError):
        Replay.load(tmp_path / "r.json")
    with pytest.raises(InputFileError):
        Replay.load(tmp_path / "none.json")


def test_an_unknown_field_of_a_newer_version_is_passed_over(tmp_path: Path) -> None:
    info = {"vendor": "x", "index": 0, "name": "y"}
    text = {"schema": "gpuscope.sensor", "info": info, "readings": [{"time_s": 1, "new": 2}]}
    (tmp_path / "r.json").write_text(json.dumps(text))
    assert Replay.load(tmp_path / "r.json").read() == Reading(1)
