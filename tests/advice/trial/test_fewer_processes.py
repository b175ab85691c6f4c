"""How many processes a contest takes, what they are given, and when they are timed."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from gpuscope.advice.results import Limits, Target
from gpuscope.advice.trial import Trials, pairs, process

HERE = Path(__file__).parent
OWN = (str(HERE / "broken_changes.py"),)


def trials(**options: object) -> Trials:
    target = Target("build", f"{HERE / 'small_workloads.py'}:build")
    limits = Limits(120.0)
    return Trials(target, limits, device="cpu", own_changes=OWN, **options)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told here does not depend on how many there are."""
    monkeypatch.setattr(pairs, "MOST_PAIRS", 8)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], int]]:
    """Names and observed steps of every process that is started."""
    found: list[tuple[tuple[str, ...], int]] = []
    start = process.Variant.start

    def counted(self: process.Variant) -> None:
        found.append((self.job.names, self.job.observe))
        start(self)

    monkeypatch.setattr(process.Variant, "start", counted)
    return found


def test_what_was_timed_proves_itself(started: list[tuple[tuple[str, ...], int]]) -> None:
    with trials() as found:
        found.baseline()
        trial = found.contest((), ("lighter-step",))
        assert trial.outcome == "kept", trial.why
        assert trial.parity is not None
        assert trial.parity.verdict == "agrees"
    # the original: observed and timed; the candidate: both in one
    assert sorted(started) == [((), 0), ((), 5), (("lighter-step",), 0)]


def test_without_a_proof_none_is_made(started: list[tuple[tuple[str, ...], int]]) -> None:
    with trials() as found:
        trial = found.contest((), ("lighter-step", "needs-a-variable"), prove=False)
        assert trial.outcome == "kept", trial.why  # not "impossible": it has its variable
        assert trial.parity is None
        assert "part of the whole" in trial.why
    assert len(started) == 3


def test_timed_spans_of_two_runs_do_not_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans: dict[str, list[tuple[float, float]]] = {}
    timed = process.Variant.time

    def recorded(self: process.Variant, steps: int) -> float:
        begin = time.monotonic()
        found = timed(self, steps)
        spans.setdefault(threading.current_thread().name, []).append((begin, time.monotonic()))
        return found

    monkeypatch.setattr(process.Variant, "time", recorded)

    def run() -> None:
        with trials(share=tmp_path / "gpu") as found:
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
