"""What users are told to install exists: the extra, the package in it, the way to get it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
SOURCE = ROOT / "src" / "gpuscope"


def _texts() -> Iterator[tuple[str, str]]:
    """All that users read: sources, catalogues, pages, documents, examples."""
    folders = ((SOURCE, "py toml po"), (ROOT / "web/src", "ts"), (ROOT / "docs", "md"))
    for folder, kinds in (*folders, (ROOT / "examples", "py md"), (ROOT / "tools", "py sh")):
        for kind in kinds.split():
            for path in folder.rglob(f"*.{kind}"):
                yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
    for name in ("README.md", "README.zh-CN.md", "Makefile", "CONTRIBUTING.md"):
        yield name, (ROOT / name).read_text("utf-8")


def test_extras_that_are_named_exist() -> None:
    named = {
        (extra.strip(), path)
        for path, text in _texts()
        for extras in re.findall(r"(?:gpuscope|install (?:-\S+ \S* ?)*[\"']?\.)\[([^\]]*)\]", text)
        for extra in extras.split(",")
        if extra not in ("{extra}", "$extras")  # filled in, or the tests' own set-up
    }
    assert {extra for extra, _ in named} >= {"figures", "lens", "nvidia", "watch"}
    assert {(extra, path) for extra, path in named if extra not in EXTRAS} == set()


def test_no_index_is_said_to_have_gpuscope() -> None:
    """It is installed from a clone; what an index has under this name is somebody else's."""
    plain = re.compile(r"pip install (?:-\S+ )*gpuscope(?!\[)")
    upgrade = re.compile(r"pip install (?:-\S+ )*(?:-U|--upgrade) (?:-\S+ )*\\?[\"']?gpuscope")
    told = [path for path, text in _texts() if plain.search(text) or upgrade.search(text)]
    assert told == []


RAISING = ("require_package", "MissingPackageError")


def _needed() -> Iterator[tuple[str, ast.Call]]:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        # Each process that collects tests comes by here: what names neither is not parsed.
        if path.name == "errors.py" or not any(name in text for name in RAISING):
            continue
        for node in ast.walk(ast.parse(text)):
            name = getattr(getattr(node, "func", None), "id", "")
            if isinstance(node, ast.Call) and name in RAISING:
                yield path.relative_to(SOURCE).as_posix(), node


NEEDED = list(_needed())


@pytest.mark.parametrize(("path", "call"), NEEDED, ids=[f"{p}:{c.lineno}" for p, c in NEEDED])
def test_the_extra_brings_what_is_missing(path: str, call: ast.Call) -> None:
    package, _, extra = call.args
    assert isinstance(extra, ast.Constant)
    if extra.value is None:  # a module of the user's own
        return
    assert extra.value in EXTRAS
    if isinstance(package, ast.Constant):
        brought = {re.split(r"[<>=;\[ ]", each)[0] for each in EXTRAS[extra.value]}
        assert package.value.replace("_", "-") in brought
