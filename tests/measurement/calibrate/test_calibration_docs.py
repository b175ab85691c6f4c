"""The snippet of docs/calibration.md runs; both languages show the same figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_snippet_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (DOCS / "calibration.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(code, "calibration.md", "exec"), {})
    assert capsys.readouterr().out.split("\n")[:2] == ["measured", "True"]


def test_both_languages_have_the_same_table() -> None:
    rows = [
        re.findall(r"^\| ([a-z0-9.-]+) \| (\S+ %) \| (\S+ %) \|$", text, re.MULTILINE)
        for text in (
            (DOCS / name).read_text(encoding="utf-8")
            for name in ("calibration.md", "calibration.zh-CN.md")
        )
    ]
    english = [r for r in rows[0] if r[0] != "mean"]
    assert english == rows[1]
    assert len(english) == 9
