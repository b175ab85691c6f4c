"""The snippet of docs/what-if.md runs, and both languages have the same one."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def snippets(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.S)


def test_the_snippet_runs_and_is_the_same_in_both_languages() -> None:
    (english,) = snippets("what-if.md")
    assert snippets("what-if.zh-CN.md") == [english]
    exec(compile(english, "what-if.md", "exec"), {})
