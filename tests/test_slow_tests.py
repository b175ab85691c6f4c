"""Tests that were moved to `make test-all` are there."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_each_names_a_test_that_there_is_and_what_still_looks() -> None:
    kinds = tomllib.loads((ROOT / "tests/slow.toml").read_text("utf-8"))["moved"]
    names = [name for kind in kinds for name in kind["tests"]]
    assert len(set(names)) == len(names)
    for name in names:
        file, _, test = name.partition("::")
        function = test.partition("[")[0]
        assert f"\ndef {function}(" in (ROOT / file).read_text("utf-8"), name
    assert all(kind["still"].endswith(".") for kind in kinds)
