"""Room and speed of folders; nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuscope.doctor.probes import storage


def test_a_folder_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    told = storage.look_at(str(tmp_path), most_s=0.1, most_bytes=8 << 20)
    assert told["error"] is None
    assert 0 < told["written_bytes"] <= 8 << 20
    assert told["write_bytes_per_s"] > 0
    assert told["read_bytes_per_s"] > 0
    assert told["free_bytes"] <= told["total_bytes"]
    assert list(tmp_path.iterdir()) == []


def test_a_place_with_little_room_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LEAST_FREE_BYTES", 1 << 62)
    told = storage.look_at(str(tmp_path))
    assert told["error"] is None
    assert told["write_bytes_per_s"] is None


def test_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    assert storage.look_at(str(tmp_path / "none"))["error"] == "No such file or directory"


def test_the_kind_of_file_system_is_that_of_the_nearest_mount() -> None:
    assert storage.filesystem("/proc/self") == "proc"
    assert storage.filesystem("/") is not None


def test_it_takes_less_than_its_time(tmp_path: Path) -> None:
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "gpuscope.doctor.probes.storage"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    told = json.loads(done.stdout)["places"]
    assert "working folder" in told
    assert not any(os.sep in name and name != "/dev/shm" for name in told)
    assert str(tmp_path) not in done.stdout
    assert time.perf_counter() - begin < 10
    assert list(tmp_path.iterdir()) == []
