"""The page of the doctor: every check is on it, its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuscope.doctor import registry
from gpuscope.doctor.registry import checks
from gpuscope.doctor.versions import LEAST_DRIVER

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", ["doctor.md", "doctor.zh-CN.md"])
def test_every_check_is_named(name: str) -> None:
    text = (DOCS / name).read_text("utf-8")
    listed = re.findall(r"^\| \w* \| `(\w+)` \|", text, flags=re.M)
    assert listed == [check.name for check in checks()]
    assert all(driver in text for driver in LEAST_DRIVER.values())


@pytest.mark.parametrize("name", ["doctor.md", "doctor.zh-CN.md"])
def test_examples_run(name: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text("utf-8"), flags=re.S)
    assert len(blocks) == 2
    with registry.CHECKS.replaced({check.name: check for check in checks()}):
        for block in blocks:
            exec(compile(block, name, "exec"), {"__name__": "example"})
