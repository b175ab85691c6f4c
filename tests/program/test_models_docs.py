"""The page on workloads: its snippets run, and it names every model and option."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from gpuscope.program.models import WorkloadOptions, model_names
from gpuscope.program.models.settings import ATTENTIONS, COMPILE_MODES, DTYPES, TASKS

PAGES = [Path(__file__).parents[2] / "docs" / name for name in ("models.md", "models.zh-CN.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_page_names_every_model_and_option(page: Path) -> None:
    words = set(re.findall(r"`([^`\s]+)`", page.read_text("utf-8")))
    assert {m.name for m in model_names()} <= words
    assert {f.name for f in fields(WorkloadOptions)} <= words
    assert {*ATTENTIONS, *COMPILE_MODES, *DTYPES} <= words
    text = page.read_text("utf-8")
    assert all(f"**{task}**" in text for task in TASKS)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_snippets_run_and_print_what_they_say(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    snippets = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
    assert snippets
    for snippet in snippets:
        exec(compile(snippet, str(page), "exec"), {})
        said = re.findall(r"^print\(.*\)\s+# (.*)$", snippet, flags=re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == said
