"""`gpuscope watch --serve`, as typed: it says where, gives figures, and ends when told."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuscope.measurement.sensors.types import Reading, SensorInfo
from gpuscope.watch.recording import SampleWriter
from gpuscope.watch.types import Activity, DeviceSample, Sample


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "samples.jsonl"
    with SampleWriter(path) as writer:
        for number in range(60):
            reading = Reading(float(number), power_w=321.0, energy_j=321.0 * number)
            device = DeviceSample(SensorInfo("nvidia", 0, "H200", "GPU-1"), reading, Activity())
            writer.write(Sample(1.76e9 + number, "node1", (device,), 0.1))
    return path


@contextmanager
def served(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and what it said until it told its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuscope", "watch", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "GPUSCOPE_LANG": "en"},
    )
    assert process.stderr is not None
    try:
        yield process, process.stderr.readline()
    finally:
        process.kill()
        process.communicate(timeout=20)


def figures(line: str) -> str:
    found = re.search(r"http://\S+/metrics", line)
    assert found, line
    with urllib.request.urlopen(found[0], timeout=5) as answer:
        return answer.read().decode()


def test_a_recording_is_served_until_the_user_has_enough(recording: Path) -> None:
    with served("--serve", ":0", "--replay", recording) as (process, line):
        assert "http://127.0.0.1:" in line
        assert "gpuscope_exporter_info" in figures(line)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Traceback" not in err


def test_it_ends_with_its_recording(recording: Path) -> None:
    with served("--serve", ":0", "--replay", recording, "--speed", "1000") as (process, _):
        assert process.wait(30) == 0


def test_opening_it_to_others_is_warned_of(recording: Path) -> None:
    with served("--serve", "0.0.0.0:0", "--replay", recording) as (process, line):
        assert "0.0.0.0" in line
        assert process.stderr is not None
        assert "no password" in process.stderr.readline()


def test_this_machine_is_served_whatever_it_has() -> None:
    with served("--serve", ":0", "--interval", "0.2") as (_, line):
        assert 'gpuscope_host_devices{host="' in wait_for(line, "gpuscope_host_devices{")


def wait_for(line: str, wanted: str) -> str:
    """The figures, once the first sample is there."""
    for _ in range(50):
        text = figures(line)
        if wanted in text:
            return text
        time.sleep(0.1)
    raise AssertionError(f"no {wanted}")
