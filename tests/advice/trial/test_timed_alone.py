"""Two runs on one device: while one is timed, the other is not."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from gpuscope.advice.results import Target
from gpuscope.advice.trial import Trials, process
from gpuscope.advice.trial.comparing import Proving


def test_timed_spans_of_two_runs_do_not_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their processes are left out: the lock is the controllers'."""
    spans: dict[str, list[tuple[float, float]]] = {}

    def recorded(self: process.Variant, steps: int) -> float:
        begin = time.monotonic()
        time.sleep(0.01)
        spans.setdefault(threading.current_thread().name, []).append((begin, time.monotonic()))
        return 0.01

    monkeypatch.setattr(Proving, "begin", lambda self: None)
    monkeypatch.setattr(process.Variant, "start", lambda self: None)
    monkeypatch.setattr(process.Variant, "wait_ready", lambda self, until: None)
    monkeypatch.setattr(process.Variant, "time", recorded)
    monkeypatch.setattr(process.Variant, "memory", lambda self: (None, None))
    monkeypatch.setattr(process.Variant, "energy", lambda self, seconds: None)

    def run() -> None:
        with Trials(Target("build", "any.py:build"), share=tmp_path / "gpu") as found:
            found.baseline()

    threads = [threading.Thread(target=run, name=name) for name in ("one", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    one, other = spans["one"], spans["other"]
    assert len(one) == len(other) == 8
    assert not any(a[0] < b[1] and b[0] < a[1] for a in one for b in other)
    assert one[-1][1] < other[0][0] or other[-1][1] < one[0][0]  # not even between blocks
