"""The documentation of distributed code runs and prints what it says, in both languages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
NAMES = ["distributed.md", "distributed.zh-CN.md"]


def snippets(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.S)


def test_the_snippet_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    english, chinese = map(snippets, NAMES)
    assert english == chinese
    code = english[0]
    exec(compile(code, NAMES[0], "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^# (.*)$", code, re.M)


def test_both_languages_say_as_much() -> None:
    english, chinese = ((DOCS / name).read_text(encoding="utf-8") for name in NAMES)
    for mark in ("\n## ", "\n| ", "\n- "):
        assert english.count(mark) == chinese.count(mark)
