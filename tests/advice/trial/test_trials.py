"""Variants really run in processes of their own, on the processor."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuscope.advice.results import Limits, Stopped, Target
from gpuscope.advice.trial import Trials, pairs, process
from gpuscope.advice.trial import comparing as proving
from gpuscope.document.text import render
from gpuscope.errors import UnknownNameError, WorkloadError

HERE = Path(__file__).parent
OWN = (str(HERE / "broken_changes.py"),)
SECONDS = 120.0


def trials(function: str, **options: object) -> Trials:
    target = Target("build", f"{HERE / 'small_workloads.py'}:{function}")
    limits = Limits(SECONDS, memory_bytes=2 << 30)
    return Trials(target, limits, device="cpu", own_changes=OWN, **options)  # type: ignore[arg-type]


Started = list[tuple[tuple[str, ...], int]]
"""Names and observed steps of every process that is started."""


@pytest.fixture(scope="module")
def started() -> Iterator[Started]:
    found: Started = []
    start = process.Variant.start

    def counted(self: process.Variant) -> None:
        found.append((self.job.names, self.job.observe))
        start(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process.Variant, "start", counted)
        yield found


@pytest.fixture(scope="module")
def running(started: Started, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    with trials("build", share=tmp_path_factory.mktemp("shared") / "device") as found:
        yield found


def test_the_baseline_is_measured(running: Trials) -> None:
    measured = running.baseline()
    assert 0 < measured.low_s <= measured.step_s <= measured.high_s
    assert measured.ready_s > 0
    assert measured.peak_memory_bytes is None  # a processor has no device memory
    assert measured.energy_j is None
    assert running.device


def test_without_a_proof_none_is_made(
    running: Trials, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "MOST_PAIRS", 8)  # many times as fast: seen at once
    names = ("lighter-step", "needs-a-variable")
    trial = running.contest((), names, prove=False)
    assert trial.outcome == "kept", trial.why  # not "impossible": it has its variable
    assert trial.parity is None
    assert "part of the whole" in trial.why
    assert [one for one in started if one[0]] == [(names, 0)]


@pytest.mark.parametrize(
    ("name", "outcome", "told"),
    [
        ("exits", "crashed", "the last words"),
        ("raises", "crashed", "an error on purpose"),
        ("impossible-here", "impossible", "A package is missing."),
        ("takes-all-memory", "memory", "memory"),
    ],
)
def test_what_fails_costs_its_own_trial(
    running: Trials, name: str, outcome: str, told: str
) -> None:
    trial = running.contest((), (name,))
    assert trial.outcome == outcome
    assert told in trial.why
    assert trial.speedup is None
    assert trial.parity is None
    assert trial.added == (name,)


def test_what_hangs_is_ended(running: Trials) -> None:
    running.baseline()
    running.limits = Limits(4.0)
    trial = running.contest((), ("hangs",))
    running.limits = Limits(SECONDS)
    assert trial.outcome == "hung"
    assert 3.5 < trial.seconds < 30
    assert running.baseline().step_s > 0  # which still answers


def test_what_is_not_over_when_time_is_is_ended_and_counts_for_nothing(running: Trials) -> None:
    running.baseline()
    end = time.monotonic() + 2.0
    running.left_s = lambda: end - time.monotonic()
    trial = running.contest((), ("hangs",))
    running.left_s = lambda: math.inf
    assert (trial.outcome, trial.speedup, trial.parity) == ("skipped", None, None)
    assert re.fullmatch(r"Stopped after .* s, before .* timed\. The budget was over\.", trial.why)
    assert 1.5 < trial.seconds < 30
    assert running.baseline().step_s > 0  # the original is there again


def test_what_was_begun_is_what_the_baseline_waits_for(running: Trials, started: Started) -> None:
    running.begin()
    before = len(started)
    assert running.baseline().ready_s > 0
    assert len(started) == before


def test_what_helps_is_kept_and_its_results_agree(
    running: Trials, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "MOST_PAIRS", 8)  # many times as fast: seen at once
    trial = running.contest((), ("lighter-step",))
    # What was timed proves itself: the candidate is both in one; the original is observed once.
    assert [one for one in started if one[0] == ("lighter-step",)] == [(("lighter-step",), 0)]
    assert started.count(((), 5)) == 1
    assert trial.outcome == "kept", trial.why
    assert trial.low is not None
    assert trial.low > 1.2
    assert trial.parity is not None
    assert trial.parity.verdict == "agrees"
    assert trial.parity.note is not None  # dropout was off
    assert {c.what.partition(",")[0] for c in trial.parity.compared} == {
        "loss",
        "gradient norm",
        "update of the parameters",
    }


@pytest.mark.parametrize(
    ("name", "verdict"),
    [("scaled-loss", "differs"), ("not-a-number", "overflow"), ("skipped-step", "differs")],
)
def test_wrong_results_are_found(running: Trials, name: str, verdict: str) -> None:
    assert running.parity((name,)).verdict == verdict


def test_a_model_that_varies_is_compared_by_its_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCESS_COUNTER", str(tmp_path / "counter"))
    monkeypatch.setattr(proving, "BASES", 3)
    monkeypatch.setattr(proving, "OTHERS", 2)
    with trials("varying", allow_writes=True) as found:  # processes count themselves in a file
        parity = found.parity(("lighter-step",))
    assert parity.verdict == "distribution"
    assert parity.note is not None


def test_inference_is_compared_by_its_outputs() -> None:
    with trials("inference") as found:
        parity = found.parity(("lighter-step",))
    assert [c.what for c in parity.compared] == ["output"]
    assert parity.verdict == "agrees"


def test_a_loader_that_runs_out_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "MOST_PAIRS", 8)
    with trials("short_data") as found:
        trial = found.contest((), ("lighter-step",))
    assert trial.outcome == "kept", trial.why
    assert trial.parity is not None
    assert trial.parity.verdict == "agrees", "five steps are compared, and it has three batches"
    assert trial.why.endswith("The loader ran out after 3 batches and began again.")
    assert render(trial.why, "zh").endswith("数据加载器在 3 个批次后用完，已从头开始。")
    assert trial.measured is not None
    waits_s = trial.measured.loader_s
    assert waits_s is not None
    assert 0 < waits_s < trial.measured.step_s


def test_an_original_that_fails_is_an_error() -> None:
    with trials("fails") as found, pytest.raises(WorkloadError, match="no such data"):
        found.baseline()


@pytest.mark.parametrize(
    ("timed", "told"),
    [
        (False, r"Stopped after 3.\d+ s, before its pairs were timed"),
        (True, r"Stopped after 3.\d+ s: 2× \(2 to 2\), but its results were not compared yet"),
    ],
)
def test_an_interruption_tells_how_far_the_trial_had_come(
    monkeypatch: pytest.MonkeyPatch, timed: bool, told: str
) -> None:
    def interrupted(_: Trials, contest: Any) -> None:
        contest.began -= 3.0
        if timed:
            contest.pairs = pairs.Pairs([0.2] * 9, [0.1] * 9)
        raise KeyboardInterrupt

    monkeypatch.setattr(Trials, "_side_by_side", interrupted)
    with trials("build") as found, pytest.raises(Stopped) as stop:
        found.contest((), ("lighter-step",))
    trial = stop.value.trial
    assert (trial.names, trial.added) == (("lighter-step",),) * 2
    assert (trial.outcome, trial.speedup) == ("skipped", None), "nothing is won by it"
    assert re.search(told, trial.why)
    assert trial.seconds > 3.0


def test_a_change_that_is_not_known(running: Trials) -> None:
    with pytest.raises(UnknownNameError):
        running.contest((), ("no-such-change",))
