"""`gpuscope report` through the command line: the page, the browser, the film."""

from __future__ import annotations

import shutil
import subprocess
import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app

RUN = Path(__file__).resolve().parents[1] / "data" / "runs" / "h200-mlp-small.json.gz"
SNAPSHOT = Path(__file__).resolve().parents[1] / "data" / "traces" / "h200" / "snapshot.pickle"


@pytest.fixture(autouse=True)
def _in_a_folder(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("GPUSCOPE_LANG", "en")
    monkeypatch.chdir(tmp_path)


def _invoke(*arguments: str):
    return CliRunner().invoke(app, ["report", *arguments])


def test_a_saved_run_becomes_a_page_that_is_opened(monkeypatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    shown = _invoke(str(RUN), "--open")
    assert shown.exit_code == 0, shown.output
    page = Path("h200-mlp-small.html").resolve()
    assert opened == [page.as_uri()]
    assert 'id="data"' in page.read_text("utf-8")


def test_where_no_browser_is_the_page_is_named(monkeypatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    shown = _invoke(str(SNAPSHOT), "--output", "memory.html", "--open")
    assert shown.exit_code == 0
    assert "Open memory.html yourself" in shown.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--video", "step.avi"), "cannot be written as step.avi"),
        (("--video", "step.mp4", "--seconds", "0"), "A film of 0"),
    ],
)
def test_a_film_that_cannot_be_is_refused_in_words(words, said) -> None:
    pytest.importorskip("playwright")
    if not shutil.which("ffmpeg") or not shutil.which("chromium"):
        pytest.skip("needs ffmpeg and Chromium")
    shown = _invoke(str(RUN), *words)
    assert shown.exit_code == 2
    assert said in " ".join(str(shown.output).split())
    assert not Path(words[1]).exists()


def test_without_ffmpeg_it_says_so(monkeypatch) -> None:
    pytest.importorskip("playwright")
    monkeypatch.setenv("PATH", "")
    shown = _invoke(str(RUN), "--video", "step.gif")
    assert shown.exit_code == 2
    assert "ffmpeg" in shown.output
    assert not Path("h200-mlp-small.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["step.mp4", "step.gif"])
def test_a_film_has_the_step_s_pictures(name) -> None:
    pytest.importorskip("playwright")
    if not shutil.which("ffprobe") or not shutil.which("chromium"):
        pytest.skip("needs ffmpeg and Chromium")
    shown = _invoke(str(RUN), "--video", name, "--seconds", "1")
    assert shown.exit_code == 0, shown.output
    ask = ["-count_frames", "-show_entries", "stream=nb_read_frames,width", "-of", "csv=p=0"]
    told = subprocess.run(["ffprobe", "-v", "error", *ask, name], capture_output=True, text=True)
    width, pictures = (int(each) for each in told.stdout.strip().split(",")[:2])
    assert (width, pictures) == ((1600, 15) if name == "step.mp4" else (960, 10))
