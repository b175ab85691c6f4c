"""What many processes found is summed, and a process that fell is a failure with its input."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "timeline"))

import fuzz_many
from fuzz_targets import Target


def _fall(path: Path) -> None:
    if path.read_bytes() == b"3":
        os._exit(7)
    if path.read_bytes() == b"2":
        raise ValueError


def test_failures_and_fallen_processes_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = iter(b"012323")
    target = Target("falls", "x", lambda _: bytes([next(made)]), _fall, ci=1)
    monkeypatch.setattr(fuzz_many, "TARGETS", {"falls": target})
    (folder := tmp_path / "folder").mkdir()
    assert fuzz_many.many(1.5, 1, tmp_path / "out", folder, seed=5) >= 1
    fell = [json.loads(line) for line in (tmp_path / "out/failures.jsonl").open()]
    assert {base64.b64decode(line["base64"]) for line in fell} == {b"2", b"3"}
    sums = [json.loads(line) for line in (tmp_path / "out/results.jsonl").open()]
    assert sum(line["failed"] for line in sums) >= 1
