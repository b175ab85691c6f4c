"""docs/json.md names every field that the document has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from gpuscope.analysis.compare import Comparison
from gpuscope.analysis.types import Analysis
from gpuscope.run import Measurement, Run
from gpuscope.run.figures import Figures
from gpuscope.timeline.types import Collective, Recorded, Source

DOCS = Path(__file__).parents[2] / "docs"
KINDS = [Analysis, Measurement, Figures, Source, Collective, Recorded, Comparison]


def _within(kind: Any) -> Iterator[type]:
    if isinstance(kind, type) and is_dataclass(kind):
        yield kind
    for each in get_args(kind):
        yield from _within(each)


def _names(kind: type, seen: set[type]) -> set[str]:
    """Fields of a dataclass and of all those in it."""
    if kind in seen:
        return set()
    seen.add(kind)
    found: set[str] = set()
    hints = get_type_hints(kind)
    for field in fields(kind):
        found.add(field.name)
        for inner in _within(hints[field.name]):
            found |= _names(inner, seen)
    return found


@pytest.mark.parametrize("page", ["json.md", "json.zh-CN.md"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_named(page: str, kind: type) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text))
    assert sorted(_names(kind, set()) - named) == []


@pytest.mark.parametrize("page", ["json.md", "json.zh-CN.md"])
def test_every_field_of_a_run_is_named(page: str) -> None:
    named = set(re.findall(r"`(\w+)`", (DOCS / page).read_text(encoding="utf-8")))
    assert sorted({field.name for field in fields(Run)} - named - {"basis", "memory_blocks"}) == []
