"""The pages of the documentation: none is lost, no link is dead, each has its twin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md", ROOT / "tests" / "data" / "traces" / "README.md",
]  # fmt: skip
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
        page.resolve() for page in (ROOT / "docs").glob("*.md")
        if page.name.endswith(".zh-CN.md") == chinese or (chinese and page.name in ENGLISH_ONLY)
    }  # fmt: skip
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
