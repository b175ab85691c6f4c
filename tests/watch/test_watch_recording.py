"""Samples written and read again; a recording played at its pace."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watch_samples import device, idle, samples, training

from gpuscope.document.printable import harmless
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.measurement.sensors.types import ProcessUse, Reading, SensorInfo
from gpuscope.watch.recording import (
    Replay,
    SampleWriter,
    read_sample,
    read_samples,
    sample_document,
    sample_line,
)
from gpuscope.watch.source import EndOfSamples
from gpuscope.watch.types import Activity, DeviceSample, Sample
from gpuscope.watch.verdict import judge

number = st.none() | st.floats(0, 1e15)
readings = st.builds(
    Reading,
    time_s=st.floats(0, 1e9),
    power_w=number,
    energy_j=number,
    utilisation=number,
    memory_used_bytes=st.none() | st.integers(0, 2**45),
    throttle_reasons=st.none() | st.tuples(st.text()),
    throttled_s=st.none() | st.dictionaries(st.text(), st.floats(0, 1e9)),
    processes=st.none()
    | st.tuples(st.builds(ProcessUse, st.integers(0, 2**31), st.text(), st.none())),
)
devices = st.builds(
    DeviceSample,
    st.builds(SensorInfo, st.text(), st.integers(0, 63), st.text(), notes=st.tuples(st.text())),
    readings,
    st.builds(Activity, sm=number, pcie_rx_bytes_per_s=number),
)


@settings(deadline=None)
@given(st.builds(Sample, st.integers(0, 2**33), st.text(), st.tuples(devices), number))
def test_a_sample_comes_back_as_it_was(sample: Sample) -> None:
    line = sample_line(sample)
    assert "\n" not in line
    back = read_sample(json.loads(line))
    # What a terminal would obey in a name comes back visible.
    assert replace(back, host_cpu=None) == replace(harmless(sample), host_cpu=None)
    assert (back.host_cpu is None) == (sample.host_cpu is None)


def test_a_line_is_a_whole_document() -> None:
    taken = samples(training, 3)
    document = sample_document(taken[-1], [judge(taken, 0)])
    assert (document["schema"], document["version"]) == ("gpuscope.samples", 1)
    (entry,) = document["devices"]
    assert entry["verdict"]["kind"] == "compute_bound"
    assert entry["reading"]["power_limit_w"] == 700.0
    assert entry["info"]["uuid"] == "GPU-000-abc"


def test_what_was_not_read_is_left_out() -> None:
    sample = Sample(1.0, "h", (device(0, None, power_w=None, utilisation=math.nan),))
    (entry,) = sample_document(sample)["devices"]
    assert entry["activity"] == {}
    assert not {"power_w", "utilisation"} & set(entry["reading"])
    assert "host_cpu" not in sample_document(sample)


def written(tmp_path, taken) -> str:
    path = tmp_path / "a.jsonl"
    with SampleWriter(path) as writer:
        for sample in taken:
            writer.write(sample)
    return str(path)


def test_a_killed_recording_is_good_up_to_its_last_line(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    whole = written(tmp_path, samples(training, 5))
    text = path.read_text()
    path.write_text(text[:-40])
    assert len(list(read_samples(whole))) == 4
    path.write_text(text.replace('"host"', '"hos', 1))
    with pytest.raises(InputFileError, match="Line 1"):
        list(read_samples(whole))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no sample"),
        ("hello\n", "Line 1"),
        ('{"schema": "gpuscope.run"}\n', "schema"),
        ('{"schema": "gpuscope.samples", "version": 2}\n', "version is 2"),
        ('{"schema": "gpuscope.samples", "version": 1, "unix_s": 1, "host": "a"}\n', "devices"),
        (
            '{"schema": "gpuscope.samples", "version": 1, "unix_s": 1, "host": "a", "devices": [{'
            '"info": {"vendor": "x", "index": 0, "name": "y"}, "reading": {"time_s": "soon"}}]}\n',
            r"devices\[0\]\.reading\.time_s: number expected, not text",
        ),
        ("\xff\xfe", "Line 1"),
    ],
)
def test_what_is_no_recording_is_told(tmp_path, text: str, said: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(InputFileError, match=said):
        list(read_samples(path))


def test_missing_and_binary_files_are_told(tmp_path) -> None:
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    for name in ("none", "b"):
        with pytest.raises(InputFileError, match="Cannot read"):
            list(read_samples(tmp_path / name))
    with pytest.raises(InputFileError):
        SampleWriter(tmp_path / "no" / "a.jsonl")


def test_fields_of_a_newer_writer_are_passed_over() -> None:
    document = json.loads(sample_line(samples(training, 1)[0]))
    document["devices"][0]["reading"]["soul_kg"] = 21
    document["mood"] = "good"
    assert read_sample(document).devices[0].reading.power_w is not None


class Clock:
    def __init__(self) -> None:
        self.now, self.slept = 0.0, []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def __call__(self) -> float:
        return self.now


def test_a_replay_keeps_the_pace() -> None:
    clock = Clock()
    replay = Replay(iter(samples(training, 4, step_s=2.0)), speed=4, sleep=clock.sleep, clock=clock)
    assert replay.interval_s == pytest.approx(0.5)
    for _ in range(4):
        replay.read()
    assert clock.slept == pytest.approx([0.5] * 3)
    with pytest.raises(EndOfSamples):
        replay.read()


def test_the_reader_s_own_time_is_part_of_the_pace() -> None:
    clock = Clock()
    replay = Replay(iter(samples(training, 3)), sleep=clock.sleep, clock=clock)
    replay.read()
    clock.now += 0.7
    replay.read()
    clock.now += 5.0  # too late: no sleep, no rush either
    replay.read()
    assert clock.slept == pytest.approx([0.3])


def test_hosts_that_were_read_together_come_together() -> None:
    a = samples(training, 3, host="a")
    b = samples(idle, 2, host="b")
    replay = Replay(iter([a[0], b[0], a[1], a[2], b[1]]), speed=math.inf)
    groups = [[s.host for s in replay.read()] for _ in range(3)]
    assert groups == [["a", "b"], ["a"], ["a", "b"]]


def test_a_file_is_played(tmp_path) -> None:
    path = written(tmp_path, samples(training, 3))
    replay = Replay.load(path, speed=math.inf)
    assert [replay.read()[0].unix_s % 10 for _ in range(3)] == [0, 1, 2]
    replay.close()


@pytest.mark.parametrize("speed", [0, -1, math.nan])
def test_a_speed_that_plays_nothing_is_refused(speed: float) -> None:
    with pytest.raises(InvalidValueError):
        Replay(iter(samples(training, 1)), speed=speed)


def test_no_sample_is_no_replay() -> None:
    with pytest.raises(InputFileError):
        Replay(iter([]))
