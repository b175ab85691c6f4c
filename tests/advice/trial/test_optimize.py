"""The whole run, with trials that are played; one test runs them for real on the processor."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from gpuscope.advice import registry, user_changes
from gpuscope.advice.results import Compared, Measured, Parity, Trial
from gpuscope.advice.trial.ladder_store import read_ladder
from gpuscope.advice.trial.optimize import optimize
from gpuscope.errors import (
    GpuscopeError,
    InputFileError,
    InvalidValueError,
    UnknownNameError,
    UnsupportedError,
    WorkloadError,
)

pytest.importorskip("torch")

TRAIN = """
import time
import torch

def build():
    layer = torch.nn.Linear(4, 4)

    def step():
        time.sleep(0.004)
        return layer(torch.ones(2, 4)).sum()

    return step
"""

OWN = """
import time
from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import Edit, Fit
from gpuscope.document.text import Text

class NoSleep(Change):
    name = "no-sleep"
    title = Text("no sleeping")
    group = "operators"
    needs_gpu = False

    def fits(self, case):
        return Fit(True, Text("It sleeps."))

    def install(self, live):
        live.set(time, "sleep", lambda seconds: None)

    def edits(self, sources, seen):
        lines = sources[seen.file].splitlines()
        at = next((n for n, line in enumerate(lines, 1) if "time.sleep" in line), None)
        return (Edit(seen.file, at, at, ""),) if at else None

class Wrong(NoSleep):
    name = "wrong-result"
    title = Text("another result")

    def install(self, live):
        live.on_step(lambda step: lambda: step() * 1.5)

    def edits(self, sources, seen):
        return None

register(NoSleep())
register(Wrong())
"""

NAMES = ("no-sleep", "wrong-result")
AGREES = Parity("agrees", "exact", (Compared("result", 0.0, 1e-6, 5),))
DIFFERS = Parity("differs", "exact", (Compared("result", 0.5, 1e-6, 5),))


class Played:
    """Stands for `Trials`: "no-sleep" and the patch make a step five times as fast."""

    contests: list[tuple[tuple[str, ...], tuple[str, ...]]]
    baselines = 0
    interrupt_at: int | None = None

    def __init__(self, target: object, limits: object, **keywords: object) -> None: ...

    def __enter__(self) -> Played:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def close(self) -> None: ...

    def begin(self) -> None: ...

    def baseline(self) -> Measured:
        type(self).baselines += 1
        return Measured(0.005, 0.0049, 0.0051, 100)

    def contest(
        self, best: tuple[str, ...], candidate: tuple[str, ...], *, prove: bool = True
    ) -> Trial:
        if self.interrupt_at == len(self.contests):
            raise KeyboardInterrupt
        self.contests.append((best, candidate))
        fast = {"no-sleep", "patched-source"}
        gain = 5.0 ** (len(fast & set(candidate)) - len(fast & set(best)))
        bad = "wrong-result" in candidate
        outcome = "parity" if bad else "kept" if gain > 1 else "even"
        measured = Measured(0.005 / gain, 0.0009, 0.0011, 100)
        return Trial(
            candidate,
            (),
            best,
            outcome,
            None,
            None,
            gain,
            gain * 0.99,
            gain * 1.01,
            measured,
            DIFFERS if bad else AGREES,
            seconds=3.0,
        )  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train_sleepy.py").write_text(TRAIN)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "lines.py").write_text("print(1)\n")
    known = {change.name: change for change in registry.changes()}
    # What it registers goes with it: other processes are told which files to run.
    monkeypatch.setattr(user_changes, "_LOADED", set(user_changes.loaded()))
    with registry.CHANGES.replaced(known):
        yield tmp_path


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> type[Played]:
    class Fresh(Played):
        contests: list[Any] = []  # noqa: RUF012 - of this test alone

    monkeypatch.setattr("gpuscope.advice.trial.trials.Trials", Fresh)
    return Fresh


def _optimize(folder: Path, **more: Any) -> Any:
    more.setdefault("only", NAMES)
    return optimize(
        "train_sleepy.py:build", device="cpu", own_changes=(str(folder / "own.py"),), **more
    )


def test_what_wins_is_kept_written_and_run(folder: Path, played: type[Played]) -> None:
    told: list[Trial] = []
    ladder = _optimize(folder, on_trial=told.append)
    assert ladder.best == ("no-sleep",)
    assert ladder.speedup == pytest.approx(5.0)
    assert [t.outcome for t in ladder.trials if t.added == ("wrong-result",)] == ["parity"]
    assert "-        time.sleep(0.004)" in ladder.patch
    assert ladder.trials[-1].purpose == "patch"
    assert played.contests[-1] == ((), ("patched-source",))
    assert told[-1].purpose == "patch"
    made = folder / "gpuscope-optimize" / "train_sleepy-build"
    assert (made / "patch.diff").read_text() == ladder.patch
    assert "time.sleep" not in (made / "patched" / "train_sleepy.py").read_text()
    assert read_ladder(made).best == ("no-sleep",)
    assert json.loads((made / "ladder.json").read_text())["finished"] is True


def test_predictions_for_another_device_are_not_shown(folder: Path, played: type[Played]) -> None:
    ladder = _optimize(folder)
    assert ladder.advice is None
    assert all(t.forecast is None and t.expected is None for t in ladder.trials)
    assert any("Nothing is predicted" in note for note in ladder.notes)


def test_a_patch_that_breaks_its_promise_is_not_given(
    folder: Path, played: type[Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = played.contest

    def slower(
        self: Played, best: tuple[str, ...], candidate: tuple[str, ...], **_: object
    ) -> Trial:
        from dataclasses import replace

        trial = contest(self, best, candidate)
        if candidate != ("patched-source",):
            return trial
        measured = Measured(0.005 / 3, 0.0016, 0.0017, 100)
        return replace(trial, speedup=3.0, low=2.9, high=3.1, measured=measured)

    monkeypatch.setattr(played, "contest", slower)
    ladder = _optimize(folder)
    assert ladder.patch == ""
    assert any("3.00× instead of 5.00×" in n and '@gs.apply("no-sleep")' in n for n in ladder.notes)
    assert not (folder / "gpuscope-optimize" / "train_sleepy-build" / "patch.diff").exists()


def test_an_interruption_keeps_what_was_found_and_resuming_goes_on(
    folder: Path, played: type[Played]
) -> None:
    played.interrupt_at = 2
    ladder = _optimize(folder)
    assert ladder.interrupted
    assert ladder.best == ("no-sleep",)
    path = folder / "gpuscope-optimize" / "train_sleepy-build" / "ladder.json"
    assert json.loads(path.read_text())["finished"] is False
    # The changes were measured; their text was about to be.
    assert (path.parent / "patch.diff").read_text() == ladder.patch != ""
    assert any("The patch was not run" in note for note in ladder.notes)
    before = list(played.contests)
    played.interrupt_at = None
    again = _optimize(folder, resume=True)
    assert not again.interrupted
    assert played.contests[len(before) :] == [((), ("patched-source",))]
    assert played.baselines == 1
    assert again.best == ("no-sleep",)
    assert again.patch == ladder.patch
    assert not any("The patch was not run" in note for note in again.notes)


def test_resuming_something_else_is_refused(folder: Path, played: type[Played]) -> None:
    _optimize(folder)
    (folder / "train_sleepy.py").write_text(TRAIN + "\n# changed\n")
    with pytest.raises(InputFileError, match="the code"):
        _optimize(folder, resume=True)


def test_an_earlier_ladder_is_set_aside(folder: Path, played: type[Played]) -> None:
    _optimize(folder, out="here")
    _optimize(folder, out="here")
    assert (folder / "here" / "before-ladder.json").exists()


def test_the_host_is_measured_for_a_new_ladder_and_kept_for_one_that_goes_on(
    folder: Path, played: type[Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuscope.advice.trial import optimize as optimizing

    find, hosts = optimizing.find_candidates, []

    def found(*arguments: Any) -> Any:
        *_, host, _ = arguments
        hosts.append(host)
        return find(*arguments)

    monkeypatch.setattr(optimizing, "find_candidates", found)
    _optimize(folder, out="here")
    kept = folder / "here" / "host-calibration.toml"
    kept.write_text("of the first")
    _optimize(folder, out="here", resume=True, bench=False)
    assert kept.read_text() == "of the first"
    _optimize(folder, out="here", budget_s=77.0)
    assert not kept.exists()
    assert (folder / "here" / "before-host-calibration.toml").read_text() == "of the first"
    assert [(h.wanted, h.going_on) for h in hosts] == [(True, False), (False, True), (True, False)]
    assert (hosts[0].folder, hosts[2].budget_s) == (Path("here"), 77.0)


def test_without_a_gpu_it_says_what_needs_none(
    folder: Path, played: type[Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    if torch.accelerator.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(UnsupportedError) as caught:
        optimize("train_sleepy.py:build")
    assert "gpuscope advise" in caught.value.next_step


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: optimize("train_sleepy.py:build", device="cpu", budget_s=0), InvalidValueError),
        (lambda: optimize("train_sleepy.py:none", device="cpu"), WorkloadError),
        (lambda: optimize("none.py", device="cpu"), InputFileError),
        (lambda: optimize("gpt22", device="cpu"), UnknownNameError),
        (lambda: optimize(lambda: None, device="cpu"), WorkloadError),
        (lambda: optimize("gpt2", device="toaster"), InvalidValueError),
        (lambda: optimize("train_sleepy.py", device="cpu", only=("tf33",)), UnknownNameError),
        (lambda: optimize("train_sleepy.py", device="cpu", without=("tf33",)), UnknownNameError),
        (lambda: optimize("train_sleepy.py", device="cpu", allow=("int3",)), UnknownNameError),
        (lambda: optimize("train_sleepy.py", device="cpu", on="h2000"), UnknownNameError),
        (lambda: optimize("train_sleepy.py", device="cpu", objective="fun"), GpuscopeError),  # type: ignore[arg-type]
        (lambda: optimize("train_sleepy.py", device="cpu", own_changes=("no.py",)), InputFileError),
    ],
)
def test_wrong_input(
    folder: Path, played: type[Played], call: Callable[[], object], error: type[GpuscopeError]
) -> None:
    with pytest.raises(error):
        call()


@pytest.mark.slow
def test_for_real_on_the_processor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes, pairs, parity and the patched source: nothing is played."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr("gpuscope.advice.trial.pairs.MOST_PAIRS", 8)
    # What is left of a step is microseconds: how it compares to 5 % is this machine's mood.
    monkeypatch.setattr("gpuscope.advice.trial.patch_trial._SAME_SPEED", 0.1)
    ladder = _optimize(folder, only=("no-sleep",), budget_s=300)
    assert ladder.best == ("no-sleep",), [(t.outcome, t.why) for t in ladder.trials]
    assert ladder.low is not None
    assert ladder.low > 2
    assert ladder.patch
