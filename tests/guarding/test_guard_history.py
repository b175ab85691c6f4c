"""Who wrote the lines at fault: a real repository, some commits since its baseline."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpuscope.guarding.history import History, trace
from gpuscope.guarding.sources import Commit, Sources

NET = "one\ntwo\nthree\n"


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME",)}
    mail = {f"GIT_{role}_EMAIL": "a@b" for role in ("AUTHOR", "COMMITTER")}
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for name, value in {**who, **mail, **alone}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        return subprocess.run(
            ["git", *words], check=True, capture_output=True, text=True
        ).stdout.strip()

    run("init", "-q")
    return run


def commit(git, title: str) -> str:
    git("add", "-A")
    git("commit", "-q", "-m", title)
    return git("rev-parse", "HEAD")[:8]


def test_lines_since_the_baseline_come_first_with_their_commit(git, tmp_path: Path) -> None:
    net = Path("src/net.py")
    net.parent.mkdir()
    net.write_text(NET)
    Path("b.toml").write_text("1")
    commit(git, "baseline")
    # A title and a content line that look like git's own words.
    net.write_text(NET.replace("two", "summary two"))
    second = commit(git, "boundary")
    net.write_text(net.read_text() + "four\n")
    found = Sources(
        lines={"aten::mm": ("net.py:1", "net.py:2", "net.py:4", "torch/nn.py:1")},
        breaks=("elsewhere.py:1",),
        findings={"kind": ("why", ("net.py:3", "net.py:2"))},
    )
    traced = trace(found, History(tmp_path / "b.toml"))
    assert traced.lines["aten::mm"] == (
        *("src/net.py:2", "src/net.py:4", "src/net.py:1"),
        "torch/nn.py:1",
    )
    assert traced.findings["kind"] == ("why", ("src/net.py:2", "src/net.py:3"))
    assert traced.breaks == ("elsewhere.py:1",)
    assert traced.commits == {
        "src/net.py:2": Commit(second, "boundary"),
        "src/net.py:4": Commit("", ""),
    }

    Path("b.toml").write_text("2")  # written anew, not committed yet: what counts is since HEAD
    assert {*trace(found, History(tmp_path / "b.toml")).commits} == {"src/net.py:4"}


def test_a_name_that_two_files_have_is_left(git, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        Path(folder).mkdir()
        Path(folder, "net.py").write_text(NET)
    commit(git, "both")
    history = History(tmp_path / "b.toml")
    assert history.placed("net.py:1") == "net.py:1"
    assert history.placed("a/net.py:1") == "a/net.py:1"
    assert history.placed(f"{tmp_path}/b/net.py:1") == "b/net.py:1"
    assert history.commit("a/net.py:1") is None  # no baseline is committed


def test_without_a_repository_all_is_as_it_was(tmp_path: Path) -> None:
    found = Sources(lines={"aten::mm": ("net.py:1",)})
    assert trace(found, History(tmp_path / "b.toml")) == found
