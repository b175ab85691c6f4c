"""The snippets of docs/traces.md run, and both languages say the same."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("traces.md", "traces.zh-CN.md")


def blocks(name: str, language: str) -> list[str]:
    text = (DOCS / name).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


@pytest.mark.parametrize("name", PAGES)
def test_snippets_run(name: str) -> None:
    found = blocks(name, "python")
    assert found
    for code in found:
        exec(compile(code, name, "exec"), {})


@pytest.mark.parametrize("name", PAGES)
def test_commands_name_existing_options(name: str) -> None:
    from typer.main import get_command

    from gpuscope.cli.app import app

    verbs = get_command(app).commands  # type: ignore[attr-defined]
    for line in "".join(blocks(name, "console")).splitlines():
        words = shlex.split(line.partition("#")[0].removeprefix("$ "))
        known = {option for p in verbs[words[1]].params for option in p.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


def test_both_languages_have_the_same_shape() -> None:
    english, chinese = ((DOCS / name).read_text(encoding="utf-8") for name in PAGES)
    for mark in ("\n## ", "\n| ", "\n```"):
        assert english.count(mark) == chinese.count(mark)


@pytest.mark.parametrize("name", PAGES)
def test_the_files_that_recordings_were_tried_on_are_there(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w./]+)`", text)
    assert named
    assert not [path for path in named if not (DOCS.parent / path).is_file()]
