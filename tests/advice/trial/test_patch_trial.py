"""A patch is given only if it was run and held what the changes promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuscope.advice.registry import CHANGES
from gpuscope.advice.results import Limits, Measured, Trial
from gpuscope.advice.source.locating import locate
from gpuscope.advice.trial import patch_trial
from gpuscope.advice.trial.patch_trial import apply_note, patch_and_try
from gpuscope.advice.trial.patched_source import PATCHED
from gpuscope.advice.types import Seen
from gpuscope.document.text import Text, render
from gpuscope.errors import WorkloadError

SOURCE = "import torch\n\n\ndef build():\n    return lambda: None\n"


class Played:
    """Stands for `Trials`; gives the trial, or raises the error, that a test sets."""

    result: Trial | BaseException

    def __init__(self, target: object, limits: object, **keywords: object) -> None: ...

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *error: object) -> None: ...

    def contest(
        self, best: tuple[str, ...], candidate: tuple[str, ...], *, prove: bool = True
    ) -> Trial:
        assert (best, candidate) == ((), (PATCHED,))
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


def _trial(outcome: str, speedup: float) -> Trial:
    return Trial((PATCHED,), (), (), outcome, speedup=speedup, why=Text("Why."))  # type: ignore[arg-type]


def _made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, result: Trial | BaseException
) -> patch_trial.PatchMade:
    pytest.importorskip("torch")
    monkeypatch.setattr("gpuscope.advice.trial.trials.Trials", Played)
    monkeypatch.setattr(Played, "result", result, raising=False)
    file = folder / "plain.py"
    file.write_text(SOURCE)
    try:
        return patch_and_try(
            ("tf32",),
            Seen(file=str(file), function="build"),
            locate(f"{file}:build"),
            folder / "out",
            Limits(),
            gain=(1.9, 2.0, 2.1),
            step_s=0.010,
        )
    finally:
        CHANGES.drop(PATCHED)


def test_a_patch_that_holds_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _made(tmp_path, monkeypatch, _trial("kept", 1.98))
    assert "+++ b/plain.py" in made.diff
    assert made.trial is not None
    assert (made.trial.names, made.trial.purpose) == (("tf32",), "patch")
    assert made.note is None


def test_a_patch_whose_run_was_stopped_is_given_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _made(tmp_path, monkeypatch, KeyboardInterrupt())
    assert made.stopped
    assert "+++ b/plain.py" in made.diff
    assert made.note is patch_trial.NOT_RUN


def test_a_patch_whose_run_the_budget_ended_is_given_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _made(tmp_path, monkeypatch, replace(_trial("skipped", 1.0), speedup=None))
    assert not made.stopped
    assert made.trial is None
    assert "+++ b/plain.py" in made.diff
    assert render(made.note, "en").endswith("that was over. The budget was over.")


def _timed(speedup: float, high: float, step_s: float) -> Trial:
    measured = Measured(step_s, step_s, step_s, 10)
    return replace(_trial("kept", speedup), high=high, measured=measured)


@pytest.mark.parametrize(
    ("result", "given"),
    [
        (_timed(1.7, 1.85, 0.020), True),  # the intervals meet: 1.85 is over 95 % of 1.9
        (_timed(1.5, 1.6, 0.0104), True),  # the original was quicker, not the patch slower
        (_timed(1.5, 1.6, 0.0110), False),
    ],
)
def test_the_original_may_have_another_pace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Trial, given: bool
) -> None:
    assert bool(_made(tmp_path, monkeypatch, result).diff) is given


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (_trial("kept", 1.5), "1.50× instead of 2.00×"),
        (_trial("parity", 2.0), "Why."),
        (_trial("even", 1.0), "Why."),
        (WorkloadError("It broke."), "It broke."),
    ],
)
def test_a_patch_that_does_not_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Trial | Exception, said: str
) -> None:
    made = _made(tmp_path, monkeypatch, result)
    assert made.diff == ""
    assert made.note is not None
    assert said in made.note
    assert '@gs.apply("tf32")' in made.note


def test_a_script_is_told_its_line() -> None:
    assert 'gs.apply("tf32", "sdpa").start()' in apply_note(("tf32", "sdpa"), "")
