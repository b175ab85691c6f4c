"""`gpuscope watch --energy`, `--dashboard` and `--alerts`, as typed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app
from gpuscope.watch.dashboards import ALERTS, DASHBOARD

ECHO = [sys.executable, "-c", "import sys; print(*sys.argv[1:]); sys.exit(5)"]


def gpuscope(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuscope", "watch", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


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
    ("arguments", "said"),
    [
        (["--energy", "--grid", "atlantis", "--"], "Unknown electricity grid"),
        (["--energy", "--price", "-1", "--"], "cannot cost"),
        (["--energy", "--output", "/no/such/folder/x", "--"], "Cannot write"),
        (["--energy"], "needs a command"),
        (["--energy", "--gpus", "63", "--"], "There is no device 63"),
        (["--energy", "--hosts", "a:1", "--"], "do not go with --energy"),
        (["--grid", "fr", "--once"], "belong to --energy"),
        (["--dashboard", "/no/such/folder/x"], "Cannot write"),
    ],
)
def test_wrong_input_is_told_before_anything_runs(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    command = [sys.executable, "-c", f"open({str(ran)!r}, 'w')"] if "--" in arguments else []
    done = CliRunner().invoke(app, ["watch", *arguments, *command])
    assert (done.exit_code, done.stdout) == (2, "")
    assert isinstance(done.exception, SystemExit)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not ran.exists()


def test_a_program_that_is_not_there_ends_as_in_a_shell() -> None:
    done = gpuscope("--energy", "--", "no-such-program-here")
    assert (done.returncode, done.stdout) == (127, "")
    assert "There is no program" in done.stderr
    assert "Traceback" not in done.stderr


def test_dashboard_and_rules_are_written(tmp_path: Path) -> None:
    dashboard, alerts = tmp_path / "gpus.json", tmp_path / "alerts.yml"
    done = gpuscope("--dashboard", dashboard, "--alerts", alerts)
    assert done.returncode == 0, done.stderr
    assert dashboard.read_bytes() == DASHBOARD.read_bytes()
    assert alerts.read_bytes() == ALERTS.read_bytes()
    assert done.stderr.count("Wrote") == 2
