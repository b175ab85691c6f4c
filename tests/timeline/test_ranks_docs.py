"""docs/ranks.md: its snippet runs, its table is what comes out, both languages say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pipeline_programs import gpipe_order, one_f_one_b_order, pipeline

from gpuscope.timeline.simulate_ranks import simulate_ranks

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("ranks.md", "ranks.zh-CN.md")


def text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_the_snippet_runs(page, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", text(page), re.S)
    exec(compile(code, page, "exec"), {})
    step_s, waits = capsys.readouterr().out.split(" ", 1)
    assert 0 < float(step_s) < 1
    assert "'dp'" in waits


@pytest.mark.parametrize("page", PAGES)
def test_the_bubbles_are_those_of_the_table(page):
    cells = r"^\| (\d+) \| (\d+) \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|"
    rows = re.findall(cells, text(page), re.M)
    assert len(rows) == 3
    for stages, micro, *said in rows:
        p, m = int(stages), int(micro)
        shares = [(p - 1) / (m + p - 1)]
        for order in (one_f_one_b_order, gpipe_order):
            period_s = simulate_ranks(*pipeline([order(p, m, s) for s in range(p)])).step_time_s
            shares.insert(0, 1 - m * 300e-6 / period_s)
        assert [f"{share:.1%}".replace("%", "") for share in shares] == said


def test_both_languages_have_the_same_sections():
    english, chinese = map(text, PAGES)
    for mark in ("\n## ", "\n| ", "\n- ", "```"):
        assert english.count(mark) == chinese.count(mark)
