"""The documentation of measuring runs and prints what it says, in both languages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NAMES = ["measure.md", "measure.zh-CN.md"]


def snippets(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize("code", snippets(NAMES[0]))
def test_snippets_print_what_they_say(code: str, capsys) -> None:
    exec(compile(code, NAMES[0], "exec"), {"__name__": "docs"})
    expected = re.findall(r"^# (.*)$", code, re.M)
    assert capsys.readouterr().out.splitlines() == expected


def test_both_languages_say_as_much() -> None:
    english, chinese = ((DOCS / name).read_text(encoding="utf-8") for name in NAMES)
    assert snippets(NAMES[0]) == snippets(NAMES[1])
    for mark in ("\n## ", "\n| ", "\n1. ", "\n6. "):
        assert english.count(mark) == chinese.count(mark)
