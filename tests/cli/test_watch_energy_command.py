"""`gpuscope watch --energy`, `--dashboard` and `--alerts`, as typed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpuscope.watch.dashboards import alerts_yaml, dashboard_json

ECHO = [sys.executable, "-c", "import sys; print(*sys.argv[1:]); sys.exit(5)"]


def gpuscope(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuscope", "watch", *map(str, arguments)], capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip


def test_a_command_keeps_its_output_options_and_exit_code(tmp_path: Path) -> None:
    document = tmp_path / "energy.json"
    done = gpuscope("--energy", "--output", document, "--", *ECHO, "--lr", "1", "--help")
    assert (done.returncode, done.stdout) == (5, "--lr 1 --help\n")
    assert "Energy" in done.stderr
    told = json.loads(document.read_text())
    assert (told["schema"], told["exit_code"]) == ("gpuscope.energy", 5)
    assert told["command"][-3:] == ["--lr", "1", "--help"]


def test_in_chinese() -> None:
    done = gpuscope("--lang", "zh", "--energy", "--", *ECHO)
    assert "能耗" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--energy", "--", "no-such-program-here"], 127, "There is no program"),
        (["--energy", "--grid", "atlantis", "--", *ECHO], 2, "Unknown grid"),
        (["--energy", "--price", "-1", "--", *ECHO], 2, "cannot cost"),
        (["--energy", "--output", "/no/such/folder/x", "--", *ECHO], 2, "Cannot write"),
        (["--energy"], 2, "needs a command"),
        (["--energy", "--gpus", "63", "--", *ECHO], 2, "There is no device 63"),
        (["--energy", "--hosts", "a:1", "--", *ECHO], 2, "do not go with --energy"),
        (["--grid", "fr", "--once"], 2, "belong to --energy"),
        (["--dashboard", "/no/such/folder/x"], 2, "Cannot write"),
    ],
)
def test_wrong_input_is_told_before_anything_runs(
    arguments: list[str], code: int, said: str
) -> None:
    done = gpuscope(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_dashboard_and_rules_are_written(tmp_path: Path) -> None:
    dashboard, alerts = tmp_path / "gpus.json", tmp_path / "alerts.yml"
    done = gpuscope("--dashboard", dashboard, "--alerts", alerts)
    assert done.returncode == 0, done.stderr
    assert dashboard.read_text("utf-8") == dashboard_json()
    assert alerts.read_text("utf-8") == alerts_yaml()
    assert done.stderr.count("Wrote") == 2
