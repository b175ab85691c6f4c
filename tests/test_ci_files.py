"""What continuous integration takes from the repository calls `guard` as it is."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import typer

from gpuscope.cli.app import make_app

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[1]
FILES = ("action.yml", ".pre-commit-hooks.yaml", "examples/ci/gitlab.yml")


@pytest.mark.parametrize("name", FILES)
def test_its_options_exist(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert yaml.safe_load(text)
    guard = typer.main.get_command(make_app(["guard", "cache"])).commands["guard"]
    known = {option for parameter in guard.params for option in parameter.opts}
    calls = re.findall(r"gpuscope guard ([^\n]*--[^\n]*)", text)
    assert calls
    assert {option for call in calls for option in re.findall(r"--[a-z-]+", call)} <= known


@pytest.mark.parametrize("code", [0, 1])
def test_the_action_ends_as_the_guard_does(tmp_path: Path, code: int) -> None:
    """Its last step, with a guard in its place that says what it was given."""
    step = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["runs"]["steps"][-1]
    guard = tmp_path / "gpuscope"
    guard.write_text(f'#!/bin/sh\necho "[$3]" > "$MARKDOWN"\nexit {code}\n')
    guard.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "CONFIG": "a $(touch spoilt) b.toml",
        "MARKDOWN": str(tmp_path / "c.md"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    ran = subprocess.run(["bash", "-e", "-c", step["run"]], env=environment, cwd=tmp_path)
    assert ran.returncode == code
    assert (tmp_path / "summary").read_text() == "[a $(touch spoilt) b.toml]\n"
    assert not (tmp_path / "spoilt").exists()
