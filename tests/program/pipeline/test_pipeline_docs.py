"""The page on pipelines: its code runs, in both languages alike; its figures by hand are right."""

from __future__ import annotations

import re
from pathlib import Path

from gpuscope.program.pipeline.orders import PipelineShape, bubble_fraction

DOCS = Path(__file__).parents[3] / "docs"


def code(page: str) -> str:
    found = re.search(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S)
    assert found is not None
    return found.group(1)


def test_the_code_runs() -> None:
    scope: dict[str, object] = {}
    exec(code("pipelines.md"), scope)
    run = scope["run"]
    assert run.step_time_s > 0  # type: ignore[attr-defined]
    assert len(run.rank_results) == 4  # type: ignore[attr-defined]


def test_both_languages_show_the_same() -> None:
    assert code("pipelines.md") == code("pipelines.zh-CN.md")
    numbers = [
        re.findall(r"[\d,.]*\d", (DOCS / name).read_text().split("```python")[0])
        for name in ("pipelines.md", "pipelines.zh-CN.md")
    ]
    assert sorted(numbers[0]) == sorted(numbers[1])


def test_the_bubble_in_the_text() -> None:
    assert bubble_fraction(PipelineShape("1f1b", 4, 16)) == 3 / 19
