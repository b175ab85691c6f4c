"""What continuous integration takes from the repository calls `guard` as it is."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
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
    calls = re.findall(r"gpuscope guard\b([^\n]*)", text)
    assert calls
    assert {option for call in calls for option in re.findall(r"--[a-z-]+", call)} <= known


def action_step(number: int) -> dict[str, str]:
    return yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["runs"]["steps"][number]


@pytest.mark.parametrize("code", [0, 1])
def test_the_action_ends_as_the_guard_does(tmp_path: Path, code: int) -> None:
    """Its second step, with a guard in its place that says what it was given."""
    step = action_step(1)
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


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        ("echo 7; echo 8", "-X PATCH repos/a/b/issues/comments/7"),
        ("true", "repos/a/b/issues/5/comments"),
        ("exit 1", "repos/a/b/issues/5/comments"),
    ],
)
def test_the_comment_is_written_once_and_then_anew(tmp_path: Path, answer: str, sent: str) -> None:
    """The Action's last step, with GitHub's command in its place, which knows a comment, or none,
    or may not do anything."""
    (tmp_path / "gh").write_text(
        f'#!/bin/sh\ncase "$*" in *--paginate*) {answer};; *) echo "$*" > said; {answer};; esac\n'
    )
    (tmp_path / "gh").chmod(0o755)
    (tmp_path / "c d.md").write_text("### gpuscope: ")
    environment = os.environ | {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "COMMENTS": "repos/a/b/issues",
        "NUMBER": "5",
        "MARKDOWN": "c d.md",
    }
    command = ["bash", "-e", "-o", "pipefail", "-c", action_step(2)["run"]]
    ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "said").read_text() == f"api --silent {sent} -F body=@c d.md\n"
    assert ("::warning::" in ran.stdout) == (answer == "exit 1")


def test_this_repository_is_guarded_with_the_versions_of_its_baseline() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/guard.yml").read_text("utf-8"))["jobs"]["guard"]
    versions = tomllib.loads((ROOT / "gpuscope-baseline.toml").read_text("utf-8"))["versions"]
    text = str(job["steps"])
    assert f"torch=={versions['torch']} " in text
    assert f"'python-version': '{versions['python']}'" in text
    assert f"transformers=={versions['transformers']}" in (ROOT / "constraints.txt").read_text()
    assert {"uses": "./", "with": {"comment": "true"}} in job["steps"]
