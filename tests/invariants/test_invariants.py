"""`check` goes through every family; the command prints what it found and says so by its exit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from spoilt import sound, with_analysis
from typer.testing import CliRunner

from gpuscope.atomic import write_document
from gpuscope.cli.app import app
from gpuscope.invariants import INVARIANTS, Book, check
from gpuscope.run.document import run_document
from gpuscope.views.check import render_checked
from gpuscope.views.terminal import make_console

TWINS = Path(__file__).parent


def test_every_family_has_a_twin() -> None:
    assert {
        p.stem.removeprefix("test_invariant_") for p in TWINS.glob("test_invariant_*.py")
    } == set(INVARIANTS.names())


def test_a_sound_run_is_checked_in_full() -> None:
    checked = check(sound())
    assert checked.violations == ()
    assert checked.count > 400


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_table_of_violations(lang: str) -> None:
    checked = check(with_analysis(kinds=()))
    console = make_console()
    with console.capture() as shown:
        console.print(render_checked(checked, lang))
    text = shown.get()
    assert "counts" in text
    assert bool(re.search("[一-鿿]", text)) == (lang == "zh")


def test_a_saved_run_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    write_document(run_document(sound().run), path)
    result = CliRunner().invoke(app, ["analyze", str(path), "--check", "--lang", "en"])
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"\d+ comparisons, none violated\.\n", result.stdout)


def test_a_spoilt_run_is_told(tmp_path: Path) -> None:
    run = sound().run
    document = run_document(run)
    document["energy_j"] *= 2
    path = tmp_path / "run.json"
    write_document(document, path)
    result = CliRunner().invoke(app, ["analyze", str(path), "--check", "--lang", "zh"])
    assert result.exit_code == 1
    assert "analysis.energy.total_j" in result.stdout


def test_none_is_equal_to_none_alone() -> None:
    book = Book("x")
    book.same("a", None, None)  # type: ignore[arg-type]
    book.same("b", float("nan"), None)  # type: ignore[arg-type]
    book.same("c", 0.0, None)  # type: ignore[arg-type]
    assert [str(v.what) for v in book.violations] == ["c"]
    assert book.count == 3
