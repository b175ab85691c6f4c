"""The page on the exporter, in both languages: all metrics, all grids, all alerts' severities."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuscope.hardware.grid import GRIDS, WORLD
from gpuscope.watch.metrics import METRICS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS / "exporter.md", DOCS / "exporter.zh-CN.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_table_holds_every_metric_and_no_other(page: Path) -> None:
    text = page.read_text("utf-8")
    table = "\n".join(line for line in text.splitlines() if line.startswith("| `gpuscope_"))
    told = re.findall(r"`(gpuscope_[a-z_]+)`", table)
    assert sorted(told) == sorted(METRICS)
    assert set(re.findall(r"gpuscope_[a-z_]*[a-z]", text)) <= set(METRICS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_grids_and_the_default_factor_are_those_of_the_code(page: Path) -> None:
    text = page.read_text("utf-8")
    (listed,) = re.findall(r"`((?:[a-z]{2} )+world)`", text)
    assert set(listed.split()) == set(GRIDS)
    assert f"{WORLD.g_per_kwh} g/kWh" in text
    assert str(WORLD.year) in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_is_listed(page: Path) -> None:
    listing = DOCS / ("README.md" if page.name == "exporter.md" else "README.zh-CN.md")
    assert f"]({page.name})" in listing.read_text("utf-8")
