"""The pages of the documentation: none is lost, no link is dead, each has its twin."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "README.md",
    ROOT / "README.zh-CN.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "tests" / "data" / "traces" / "README.md",
]
ENGLISH_ONLY = {"cost-bandwidth.md", "cost-matmul.md"}


def _links(page: Path) -> set[Path]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    found = re.findall(r"\]\((?!https?:)([^)#\s]+)\)", text)
    return {(page.parent / target).resolve() for target in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [str(target) for target in _links(page) if not target.exists()] == []


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_every_page_is_reached_from_the_readme(name: str) -> None:
    seen: set[Path] = set()
    todo = [ROOT / name]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md" or not page.is_file():
            continue
        seen.add(page)
        todo += _links(page)
    assert set(PAGES) <= seen


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_index_names_every_page_of_its_language(name: str) -> None:
    chinese = name.endswith(".zh-CN.md")
    wanted = {
        page.resolve()
        for page in (ROOT / "docs").glob("*.md")
        if page.name.endswith(".zh-CN.md") == chinese or (chinese and page.name in ENGLISH_ONLY)
    }
    assert wanted - {ROOT / "docs" / name} <= _links(ROOT / "docs" / name)


def test_every_page_has_its_chinese_twin() -> None:
    names = {page.name for page in (ROOT / "docs").glob("*.md")}
    english = {name for name in names if not name.endswith(".zh-CN.md")}
    missing = {name for name in english if name.replace(".md", ".zh-CN.md") not in names}
    assert missing == ENGLISH_ONLY


def test_every_benchmark_has_its_line() -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    scripts = [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "benchmarks" / "fit").glob("*.py")]
    assert [path.name for path in scripts if f"`{path.name}`" not in text] == []


def _commands(page: Path) -> list[list[str]]:
    """The words of each command of gpuscope on a page."""
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    lines = "".join(blocks).splitlines()
    shown = [line.removeprefix("$ ").partition(" #")[0] for line in lines if line[:2] == "$ "]
    words = [shlex.split(line) for line in shown]
    return [each[each.index("gpuscope") + 1 :] for each in words if "gpuscope" in each]


@cache
def _verbs() -> dict[str, Any]:
    from typer.main import get_command

    from gpuscope.cli.app import app

    return get_command(app).commands  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_name_existing_verbs_and_options(page: Path) -> None:
    verbs = _verbs()
    for verb, *words in _commands(page):
        if verb == "profile":  # what follows the script is the script's own
            scripts = [at for at, word in enumerate(words) if word.endswith(".py")]
            words = words[: scripts[0]] if scripts else words
        if "--" in words:  # what follows "--" is another program's
            words = words[: words.index("--")]
        command = verbs[verb]
        if hasattr(command, "commands"):  # explain: the topic has the options
            command = command.commands[words[0]]
        known = {option for p in command.params for option in p.opts}
        assert {word for word in words if word.startswith("--")} <= known, (verb, words)


def test_commands_are_found() -> None:
    assert ["bench", "--quick", "--save"] in _commands(ROOT / "docs" / "quickstart.md")
    assert len(_commands(ROOT / "docs" / "measure.md")) > 4


@pytest.mark.parametrize("name", ["architecture.md", "architecture.zh-CN.md"])
def test_the_architecture_names_every_room_and_no_other(name: str) -> None:
    text = (ROOT / "docs" / name).read_text("utf-8")
    source = ROOT / "src" / "gpuscope"
    rooms = {path.name for path in source.iterdir() if (path / "__init__.py").exists()}
    rooms |= {"program"}  # a room without an `__init__` of its own
    table = {row.split("|")[1] for row in text.splitlines() if row.startswith("| `src/gpuscope/")}
    named = set(re.findall(r"`(?:src/gpuscope/)?(\w+)`", " ".join(table)))
    assert named == rooms
