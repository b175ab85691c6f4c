"""What goes on is said in a log too: after a second and a half, and every ten."""

from __future__ import annotations

import io
import time

import pytest

from gpuscope.cli import progress as module
from gpuscope.cli.progress import progress, showing


def _log(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A standard error that is no terminal."""
    found = io.StringIO()
    monkeypatch.setattr("sys.stderr", found)
    monkeypatch.setattr("sys.argv", ["gpuscope", "measure"])
    return found


def _until(log: io.StringIO, text: str) -> None:
    end = time.monotonic() + 10
    while text not in log.getvalue() and time.monotonic() < end:
        time.sleep(0.005)


def test_what_takes_long_says_so_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    log = _log(monkeypatch)
    monkeypatch.setattr(module, "FIRST_S", 0.02)
    monkeypatch.setattr(module, "AGAIN_S", 0.02)
    with progress(False) as say:
        _until(log, "Getting ready …")
        say("Warming up …")
        _until(log, "Warming up …")
    said = log.getvalue()
    assert said.splitlines()[0].split() == ["0", "s", "Getting", "ready", "…"]
    assert "0 s  Warming up …\n" in said
    time.sleep(0.1)
    assert log.getvalue() == said


def test_what_is_quick_or_quiet_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    log = _log(monkeypatch)
    assert module.FIRST_S < 2
    with progress(False) as say:
        say("Predicting …")
    monkeypatch.setattr(module, "FIRST_S", 0.0)
    with progress(True):
        time.sleep(0.05)
    assert log.getvalue() == ""


def test_every_text_is_a_line_where_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    log = _log(monkeypatch)
    with progress(False, lines=True) as say:
        say("one")
        say("two")
    assert [line.split()[-1] for line in log.getvalue().splitlines()] == ["one", "two"]


def test_results_before_the_last_stay_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    log = _log(monkeypatch)
    with showing(False) as shown:
        shown.say("Predicting: compile …")
        shown.keep("compile: 1.60 times as fast.")
    assert log.getvalue().split(maxsplit=2)[1:] == ["s", "compile: 1.60 times as fast.\n"]
    with showing(True) as shown:
        shown.keep("nobody asked")
    assert "nobody" not in log.getvalue()
