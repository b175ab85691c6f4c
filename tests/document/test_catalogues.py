"""The catalogues of translations are whole, and a third language is one file."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("babel")

TOOL = Path(__file__).resolve().parents[2] / "tools" / "catalogue.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("catalogue_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_is_missing_unused_malformed_or_not_compiled(tool: ModuleType) -> None:
    assert tool.said_wrong() == []


def test_the_check_sees_what_is_wrong(tool: ModuleType) -> None:
    catalogue = tool.read(tool.LOCALE / "zh.po")
    wanted = tool.extracted()
    assert tool.wrong(catalogue, wanted) == []
    assert tool.wrong(catalogue, {*wanted, "A text that nobody translated."}) == [
        "missing: 'A text that nobody translated.'"
    ]
    catalogue.add("An old text.", "旧文本。")
    catalogue.add("Broken {name}.", "坏的 {name。")
    found = tool.wrong(catalogue, {*wanted, "Broken {name}."})
    assert any(each.startswith("unused: 'An old text.'") for each in found)
    assert any(each.startswith("malformed: 'Broken {name}.'") for each in found)


def test_a_rank_is_called_one_thing() -> None:
    """A process of a job is a rank in Chinese, too; a process group is one."""
    from babel.messages.pofile import read_po

    with (TOOL.parents[1] / "src/gpuscope/document/locale/zh.po").open("rb") as file:
        entries = list(read_po(file))
    process = "\u8fdb\u7a0b"
    both = [
        entry.id
        for entry in entries
        if re.search(rf"{process}(?!\u7ec4)", str(entry.string))
        and re.search(r"\branks?\b", str(entry.id), re.IGNORECASE)
        and not re.search(r"\bprocess|\bworker", str(entry.id), re.IGNORECASE)
    ]
    assert both == []


def test_no_second_language_stands_in_the_code() -> None:
    """Chinese is in the catalogue alone: a third language touches no module."""
    source = TOOL.parents[1] / "src" / "gpuscope"
    texts = [
        str(path.relative_to(source))
        for path in sorted(source.rglob("*.py"))
        if any("\u4e00" <= letter <= "\u9fff" for letter in path.read_text("utf-8"))
    ]
    assert texts == []
