"""`gpuscope doctor` shows the wiring where its checks ran."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app

H200S = Path(__file__).resolve().parents[1] / "data" / "machines" / "h200-x2.json"


@pytest.mark.parametrize(
    ("options", "shown"),
    [((), True), (("--only", "topology"), True), (("--only", "health"), False), (("-q",), False)],
)
def test_the_tree_is_shown_with_the_checks_of_the_topology(
    options: tuple[str, ...], shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = CliRunner().invoke(app, ["doctor", "--replay", str(H200S), "--lang", "en", *options])
    assert done.exit_code == 0, done.output
    assert ("How this machine is wired" in done.output) == shown
    assert ("NVLink x18 (450 GB/s)" in done.output) == shown


def test_the_page_has_the_picture(tmp_path: Path) -> None:
    page = tmp_path / "machine.html"
    done = CliRunner().invoke(app, ["doctor", "--replay", str(H200S), "--report", str(page), "-q"])
    assert done.exit_code == 0, done.output
    text = page.read_text("utf-8")
    assert "How this machine is wired" in text
    assert "NVSwitch" in text
