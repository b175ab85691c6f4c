"""What is read quickly is what the standard library reads, or is left to it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuscope
from gpuscope.hardware.plain_toml import plain_toml

LINES = [
    "[a]",
    "[a.b]",
    "[a.b.c-1]",
    "[b]",
    "[a..b]",
    "[[a]]",
    "value = 1",
    "value = -0.5e-06",
    "value = 1e400",
    "b = 007",
    "b = 1_000",
    "b = -0",
    "note = \"text of 'any' sort\"",
    'note = "a\\n"',
    "a = true",
    "a.b = 1",
    '"a" = 1',
    "# a comment",
    "",
    "  ",
    "[a] # said",
    "é = 1",
    "value = 1 2",
    "list = [1, 2]",
]


def by_the_library(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


@given(st.lists(st.sampled_from(LINES), max_size=8))
def test_lines_in_any_order_are_read_alike_or_left(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    found = plain_toml(text)
    assert found is None or repr(found) == repr(by_the_library(text))


@pytest.mark.parametrize(
    "text", ["value = 1", "[a]\n[a]\n", "a = 1\na = 2\n", "b = 1\n[b]\n", "[a.b]\n[a]\nb = 1\n"]
)
def test_what_is_doubtful_is_left(text: str) -> None:
    assert plain_toml(text) is None


def test_the_catalogue_is_read_alike() -> None:
    read = 0
    for path in sorted(Path(gpuscope.__file__).parent.rglob("*.toml")):
        text = path.read_text("utf-8")
        found = plain_toml(text)
        if found is not None:
            read += 1
            assert repr(found) == repr(tomllib.loads(text))
    assert read > 50
