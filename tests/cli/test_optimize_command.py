"""`gpuscope optimize`: arguments, files, what is shown, exit codes; the run itself is played."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuscope.advice.results import Ladder, Measured, Parity, Target, Trial
from gpuscope.advice.trial.ladder_store import LadderStore, MadeOf
from gpuscope.cli.app import app
from gpuscope.cli.optimize import seconds_of
from gpuscope.errors import InvalidValueError

TRIAL = Trial(
    ("tf32",),
    ("tf32",),
    (),
    "kept",
    None,
    1.9,
    2.0,
    1.9,
    2.1,
    Measured(0.05, 0.049, 0.051, 10),
    Parity("agrees", "tf32"),
    purpose="jump",
    seconds=9.0,
)
LADDER = Ladder(
    Target("build", "train.py:build"),
    "a GPU",
    "time",
    Measured(0.1, 0.09, 0.11, 10),
    (TRIAL,),
    ("tf32",),
    2.0,
    1.9,
    2.1,
    patch="--- a/train.py\n+++ b/train.py\n",
)

Asked = dict[str, Any]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What `optimize` is called with; it "finds" the ladder above."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("def build(): ...\n")
    (tmp_path / "lines.py").write_text("print(1)\n")
    seen: Asked = {"ladder": LADDER}

    def optimize(
        target: str,
        *,
        on_progress: Callable[[str], None],
        on_trial: Callable[[Trial], None],
        **keywords: Any,
    ) -> Ladder:
        seen.update(keywords, target=target)
        on_progress("Trying tf32 …")
        on_trial(TRIAL)
        found: Ladder = seen["ladder"]
        folder = keywords["out"] or tmp_path / "gpuscope-optimize" / "train-build"
        LadderStore(Path(folder), MadeOf(found.target, "", "a GPU", {}, "time")).write(
            found, finished=True
        )
        return found

    monkeypatch.setattr("gpuscope.advice.trial.optimize.optimize", optimize)
    return seen


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["optimize", *arguments])


def test_the_ladder_is_told_and_its_files_named(asked: Asked, tmp_path: Path) -> None:
    done = _run("train.py:build")
    assert done.exit_code == 0, done.output
    assert "2 times as fast" in done.stdout
    assert "git apply gpuscope-optimize/train-build/patch.diff" in done.stdout
    assert "✓ tf32: 2× faster" in done.stderr
    assert "report.html" in done.stderr
    # A log that nobody watches tells how far it has come.
    assert "0 s  Trying tf32 …\n✓ tf32" in done.stderr
    assert (tmp_path / "gpuscope-optimize" / "train-build" / "report.html").stat().st_size > 1000


def test_json_is_the_ladder_itself(asked: Asked, tmp_path: Path, fits_schema: Any) -> None:
    done = _run("train.py:build", "--json")
    document = fits_schema(done.stdout)
    assert document["schema"] == "gpuscope.ladder"
    assert document["best"] == ["tf32"]
    done = _run("train.py:build", "--json", "--output", "saved.json", "--report", "page.html")
    assert done.stdout == ""
    assert json.loads((tmp_path / "saved.json").read_text()) == document
    assert (tmp_path / "page.html").exists()


def test_chinese(asked: Asked) -> None:
    done = _run("train.py:build", "--lang", "zh")
    assert "速度为原来的 2 倍" in done.stdout
    assert "更快" in done.stderr


def test_arguments_arrive(asked: Asked) -> None:
    done = _run(
        "train.py:build",
        "--budget",
        "90s",
        "--allow",
        "fp8, int8",
        "--only",
        "tf32,fp8",
        "--without",
        "compile",
        "--objective",
        "memory",
        "--alone",
        "--device",
        "cpu",
        "--out",
        "here",
        "--batch",
        "4",
    )
    assert done.exit_code == 0, done.output
    assert asked["budget_s"] == 90
    assert asked["allow"] == ("fp8", "int8")
    assert asked["only"] == ("tf32", "fp8")
    assert asked["without"] == ("compile",)
    assert (asked["objective"], asked["alone"], asked["device"]) == ("memory", True, "cpu")
    assert asked["options"].batch == 4
    assert asked["out"] == Path("here")


def test_a_scripts_own_arguments(asked: Asked) -> None:
    done = _run("lines.py", "--budget", "1h", "--out", "x", "--", "--lr", "0.1", "--json")
    assert done.exit_code == 0, done.output
    assert asked["options"].arguments == ("--lr", "0.1", "--json")
    assert asked["budget_s"] == 3600


def test_an_interruption_shows_what_was_found(asked: Asked) -> None:
    asked["ladder"] = replace(LADDER, interrupted=True)
    done = _run("train.py:build")
    assert done.exit_code == 130
    assert "2 times as fast" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("train.py:build", "--budget", "soon"),
        ("train.py:build", "--budget", "-5m"),
        ("train.py:build", "--objective", "fun"),
        ("train.py:build", "--dtype", "float31"),
        ("train.py:build", "--report", "none/there.html"),
        ("train.py:build", "--", "--lr", "1"),
        ("none.py:build",),
        ("gpt22",),
        ("gpt2", "--", "x"),
    ],
)
def test_wrong_input_has_no_traceback(asked: Asked, arguments: tuple[str, ...]) -> None:
    done = _run(*arguments)
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    assert "target" not in asked


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), (" 2 m ", 120)]
)
def test_durations(text: str, expected: float) -> None:
    assert seconds_of(text) == expected


@pytest.mark.parametrize("text", ["", "m", "1d", "1e3", "-1", "10 minutes", "nan"])
def test_no_durations(text: str) -> None:
    with pytest.raises(InvalidValueError):
        seconds_of(text)
