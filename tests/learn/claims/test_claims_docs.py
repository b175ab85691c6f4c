"""docs/claims.md: its counts are the computed ones, its examples run."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from gpuscope.learn.claims.judging import IMPRECISE, RIGHT, ROUNDED
from gpuscope.learn.claims.registry import all_verdicts, counts

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = ("claims.md", "claims.zh-CN.md")


@pytest.mark.parametrize("name", PAGES)
def test_the_counts_are_those_of_the_verdicts(name: str) -> None:
    intro = (DOCS / name).read_text("utf-8").partition("```")[0]
    found = counts(all_verdicts())
    judged = len(all_verdicts()) - found["cannot say"]
    wanted = [
        len(all_verdicts()),
        len(all_verdicts()),
        judged,
        found["wrong"],
        found["imprecise"],
        found["depends"],
        found["right"],
        found["cannot say"],
    ]
    assert [int(n) for n in re.findall(r"\b\d+\b", intro, re.A)] == wanted


@pytest.mark.parametrize("name", PAGES)
def test_the_rule_is_the_one_that_is_used(name: str) -> None:
    rule = (DOCS / name).read_text("utf-8")
    for limit in (RIGHT, ROUNDED, IMPRECISE):
        assert f"{limit * 100:.0f} %" in rule


@pytest.mark.parametrize(("name", "said"), [("claims.md", "2.35×"), ("claims.zh-CN.md", "2.35 倍")])
def test_the_examples_run(name: str, said: str) -> None:
    examples = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text("utf-8"), re.S)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for example in examples:
            exec(compile(example, name, "exec"), {})
    assert len(examples) == 2
    assert f"imprecise {said}" in shown.getvalue()
