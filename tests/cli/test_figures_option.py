"""`--figures DIR`: refused before the work, written after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_builders import gpt_run
from typer.testing import CliRunner

from gpuscope.atomic import write_document
from gpuscope.cli.app import app
from gpuscope.cli.results import Result, write_figures
from gpuscope.run.document import run_document
from gpuscope.views import pictures

TRACE = "tests/data/traces/h200/sync_bound"


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_of_a_recording(tmp_path: Path) -> None:
    result = invoke("analyze", TRACE, "--quiet", "--figures", str(tmp_path / "figures"))
    assert result.exit_code == 0
    names = {file.name.partition("-")[2] for file in (tmp_path / "figures").iterdir()}
    assert {"where-the-time-goes.svg", "one-step-over-time.png"} <= names


def test_of_saved_runs(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, run in zip(paths, (gpt_run(), gpt_run(hidden=1024)), strict=True):
        write_document(run_document(run), path)
    result = invoke("compare", *map(str, paths), "--figures", str(tmp_path / "figures"))
    assert result.exit_code == 0
    assert "figures" in result.output
    assert (tmp_path / "figures" / "01-step-time-by-class.svg").is_file()


@pytest.mark.parametrize(
    "verb",
    [("analyze", TRACE), ("compare", TRACE, TRACE), ("predict", "gpt2"), ("measure", "gpt2")],
)
def test_a_folder_that_cannot_be_is_refused_first(verb, tmp_path: Path) -> None:
    result = invoke(*verb, "--figures", str(tmp_path / "no" / "where"))
    assert result.exit_code == 2
    words = result.output.translate(str.maketrans("│╭╮╰╯─", "      ")).split()
    assert "does not exist" in " ".join(words)


def test_without_matplotlib(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = invoke("analyze", TRACE, "--figures", str(tmp_path / "figures"))
    assert result.exit_code == 2
    assert "gpuscope[figures]" in result.output


def test_a_missing_font_is_told(monkeypatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr(pictures, "missing_font", lambda lang: "No font here.")
    write_figures(Result((gpt_run(), gpt_run())), tmp_path / "figures", "zh")
    assert "No font here." in capsys.readouterr().err
