"""What README and quickstart say is so: their Python runs, and what they show is printed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gpuscope as gs

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": 1,
    "README.zh-CN.md": 1,
    "docs/quickstart.md": 6,
    "docs/quickstart.zh-CN.md": 6,
}
"""Each page with its number of commands whose output it shows."""
README_BYTES = 9_000
LEFT_OUT = "…"
TOLERANCE = 0.1
"""Figures of a prediction move a little with its constants."""


def _blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def _with_output(page: str) -> list[tuple[list[str], list[str]]]:
    """Commands of gpuscope with the lines of output that the page shows below them."""
    found = []
    for block in _blocks(page, "console"):
        command, *output = block.splitlines()
        if output and not any(line.startswith("$ ") for line in output):
            found.append((shlex.split(command.removeprefix("$ "))[1:], output))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_python_runs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"__name__": "readme"}
    for block in _blocks(page, "python"):
        exec(compile(block, page, "exec"), names)
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_output_is_what_the_commands_print(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuscope.cli.app import app

    (tmp_path / "layers.py").write_text(_blocks(page, "python")[0], encoding="utf-8")
    (tmp_path / "tests").symlink_to(ROOT / "tests", target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    shown = _with_output(page)
    assert len(shown) == PAGES[page]
    for command, lines in shown:
        result = CliRunner().invoke(app, command, env={"COLUMNS": "100"})
        assert result.exit_code == 0, result.output
        printed = [_words(line) for line in result.output.splitlines()]
        for line in lines:
            if line.strip() != LEFT_OUT:
                assert any(_same(_words(line), other) for other in printed), line


def test_the_picture_shows_what_is_predicted_today() -> None:
    """The figures that it was made with are its text; if they are stale: docs/pictures/make.py."""
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("torch")
    with image.open(ROOT / "docs" / "pictures" / "report.png") as picture:
        shown = json.loads(picture.text["gpuscope"])
    run = gs.predict("gpt2", on="h200", options=gs.WorkloadOptions(from_host=True))
    assert (run.name, run.target) == (shown.pop("name"), shown.pop("target"))
    for name, figure in shown.items():
        assert getattr(run, name) == pytest.approx(figure, rel=TOLERANCE)


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_the_readme_stays_short(page: str) -> None:
    """Who comes by reads one screen; the rest is in docs/."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(text.encode()) < README_BYTES
    assert len(re.findall(r"!\[", text)) == 1
    first = text[: text.index("## ")]
    assert "make demo" in first
    assert "![" in first


def _words(line: str) -> list[str]:
    """Words and numbers apart; bars and frames left out."""
    bare = re.sub(r"[│█▏▎▍▌▋▊▉░]", " ", line)
    return re.findall(r"[−+]?\d[\d,]*(?:\.\d+)?|[^\s\d−+]+", bare)


def _same(shown: list[str], printed: list[str]) -> bool:
    """Whether a line begins with the words that are shown, numbers within the tolerance."""
    return len(shown) <= len(printed) and all(map(_alike, shown, printed[: len(shown)]))


def _alike(shown: str, printed: str) -> bool:
    one, two = _number(shown), _number(printed)
    if one is None or two is None:
        return shown == printed
    # Small counts and differences of two figures move more; they agree in sign.
    loose = 1.0 if shown[0] in "−+" else TOLERANCE
    return abs(one - two) <= loose * max(abs(one), abs(two)) and (one < 0) == (two < 0)


def _number(word: str) -> float | None:
    try:
        return float(word.replace("−", "-").replace(",", ""))
    except ValueError:
        return None
