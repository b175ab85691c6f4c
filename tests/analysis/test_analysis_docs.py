"""The snippets in the documentation run, and both languages have the same ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def snippets(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize("name", ["analysis.md", "analysis.zh-CN.md"])
def test_snippets_run(name: str) -> None:
    found = snippets(name)
    assert found
    for code in found:
        exec(compile(code, name, "exec"), {})


def test_both_languages_have_the_same_sections() -> None:
    english, chinese = (
        (DOCS / name).read_text(encoding="utf-8") for name in ("analysis.md", "analysis.zh-CN.md")
    )
    assert english.count("\n## ") == chinese.count("\n## ")
    assert english.count("\n| ") == chinese.count("\n| ")
    for kind in re.findall(r"^\| `(\w+)` \|", english, re.M):
        assert f"| `{kind}` |" in chinese
