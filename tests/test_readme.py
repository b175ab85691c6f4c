"""What the README says runs: its Python, and every file that it points to."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "README.zh-CN.md")


def _blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_python_runs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    for block in _blocks(page, "python"):
        exec(compile(block, page, "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_links_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_commands_name_existing_options(page: str) -> None:
    from typer.main import get_command

    from gpuscope.cli.app import app

    verbs = get_command(app).commands  # type: ignore[attr-defined]
    for block in _blocks(page, "console"):
        for line in block.splitlines():
            words = shlex.split(line.partition("#")[0].removeprefix("$ "))
            if words[:1] != ["gpuscope"]:
                continue
            known = {o for p in verbs[words[1]].params for o in p.opts}
            assert {w for w in words if w.startswith("--")} <= known, line
