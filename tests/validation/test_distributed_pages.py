"""The distributed accuracy pages: they say what the results say, and every miss has its cause."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "validation" / "distributed"
RESULTS = ROOT / "validation" / "results" / "distributed.json"


def loaded(name: str) -> Any:
    """A file of validation/distributed, some of which have namesakes elsewhere."""
    spec = importlib.util.spec_from_file_location(f"distributed_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_the_pages_show_the_results() -> None:
    results = json.loads(RESULTS.read_text())
    assert loaded("distributed_pages").write(results, check=True) == []


def test_every_miss_has_its_cause_in_both_languages() -> None:
    pages = loaded("distributed_pages")
    rows = json.loads(RESULTS.read_text())["rows"]
    assert pages.without_cause(rows) == []
    assert set(pages.why()) <= {row["name"] for row in rows}
    assert all(set(words) == {"en", "zh"} and all(words.values()) for words in pages.why().values())


def test_a_miss_without_a_cause_is_named() -> None:
    pages = loaded("distributed_pages")
    row = {
        "name": "new", "step_time_s": {"error": 0.2}, "peak_memory_bytes": {"error": 0.0},
        "collectives": {"same": True},
    }  # fmt: skip
    assert pages.without_cause([row]) == ["new"]
    assert pages.without_cause([{**row, "step_time_s": {"error": 0.05}}]) == []
    assert pages.without_cause(
        [{**row, "step_time_s": {"error": 0.0}, "collectives": {"same": False}}]
    ) == ["new"]


def test_results_belong_to_the_recordings() -> None:
    rows = json.loads(RESULTS.read_text())["rows"]
    folder = ROOT / "validation" / "recordings" / "h200" / "distributed"
    for row in rows:
        recorded = json.loads((folder / f"{row['name']}-2.json").read_text())
        assert row["step_time_s"]["measured"] == recorded["step_time_s"]
        ranks = recorded["ranks"]
        assert row["peak_memory_bytes"]["measured"] == max(r["peak_allocated_bytes"] for r in ranks)


def test_collectives_of_a_captured_rank_equal_the_recorded_ones() -> None:
    """The quick ones again, from the code as it is now."""
    table = loaded("table")
    folder = ROOT / "validation" / "recordings" / "h200" / "distributed"
    row = next(r for r in table.ROWS if r.name == "raw-overlap")
    programs = table.programs_of(row)
    assert table.captured_collectives(programs.of(0)) == table.recorded_collectives(
        folder / "raw-overlap-2-rank0.csv.gz"
    ) == [("AllReduce", 64 * 2**20), ("AllReduce", 4 * 2**20)]  # fmt: skip
