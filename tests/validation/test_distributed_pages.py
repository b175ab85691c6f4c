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
    results = json.loads(RESULTS.read_text())
    rows = [*results["rows"], *results["plans"]]
    assert pages.without_cause(rows) == []
    assert set(pages.why()) <= {row["name"] for row in rows}
    assert all(set(words) == {"en", "zh"} and all(words.values()) for words in pages.why().values())


def test_a_miss_without_a_cause_is_named() -> None:
    pages = loaded("distributed_pages")
    row = {
        "name": "new",
        "own_host_step_time_s": {"error": 0.2},
        "peak_memory_bytes": {"error": 0.0},
        "collectives": {"same": True},
    }
    fits = {**row, "own_host_step_time_s": {"error": -0.05}}
    assert pages.without_cause([row]) == ["new"]
    assert pages.without_cause([fits]) == []
    assert pages.without_cause([{**fits, "collectives": {"same": False}}]) == ["new"]
    assert pages.without_cause([{**fits, "peak_memory_bytes": {"error": 0.04}}]) == ["new"]
    assert pages.without_cause([{**fits, "peak_memory_bytes": None}]) == []  # not measured


def test_results_belong_to_the_recordings() -> None:
    rows = json.loads(RESULTS.read_text())["rows"]
    folder = ROOT / "validation" / "recordings" / "h200" / "distributed"
    for row in rows:
        recorded = json.loads((folder / f"{row['name']}-2.json").read_text())
        assert row["step_time_s"]["measured"] == recorded["step_time_s"]
        ranks = recorded["ranks"]
        assert row["peak_memory_bytes"]["measured"] == max(r["peak_allocated_bytes"] for r in ranks)


def test_what_was_measured_again_is_held_against_that() -> None:
    rows = {row["name"]: row for row in json.loads(RESULTS.read_text())["rows"]}
    files = sorted((ROOT / "validation/recordings/h200/distributed_again").glob("*-2.json"))
    assert len(files) == 3
    for file in files:
        row = rows[file.stem.removesuffix("-2")]
        for which in ("shipped", "own"):
            assert row["again"][which]["measured"] == json.loads(file.read_text())["step_time_s"]
        assert row["again"]["own"]["predicted"] == row["own_host_step_time_s"]["predicted"]


def test_plans_belong_to_the_recording() -> None:
    plans = loaded("plans")
    found, lines = json.loads(RESULTS.read_text())["plans"], plans.recorded()
    assert [p["name"] for p in found] == [plans.name_of(line) for line in lines]
    assert [p["step_time_s"]["measured"] for p in found] == [line["step_s"] for line in lines]
    # Later plans were measured with earlier ones' memory still there: not available, never 0.
    assert [p["peak_memory_bytes"] is None for p in found] == [False] + [True] * 14


def test_a_plan_asks_for_what_was_measured() -> None:
    plans = loaded("plans")
    by_name = {plans.name_of(line): plans.options_of(line) for line in plans.recorded()}
    four = by_name["llama 8 blocks dp=2 fsdp=zero1 microbatches=4"]
    assert (four.parallel.global_batch, four.parallel.microbatch, four.layers) == (8, 1, 8)
    alone = by_name["llama 8 blocks tp=2 microbatch=2 sequence_parallel=no"]
    assert (alone.parallel.global_batch, alone.parallel.sequence_parallel) == (2, False)
    eager = by_name["llama 8 blocks dp=2 fsdp=full attention=eager fused_norm=no"]
    assert (eager.attention, eager.parallel.software.fused_norm) == ("eager", False)


def test_pairs_of_collectives_as_the_code_has_them_now() -> None:
    stored = json.loads(RESULTS.read_text())["two"]
    for pair, row in zip(loaded("pairs").rows(), stored, strict=True):
        assert pair["predicted"] == pytest.approx(row["predicted"], rel=0.01)
        assert pair["measured"] == pytest.approx(row["measured"])
        assert 1 <= min(pair["predicted"]) <= max(pair["predicted"]) <= 2


def test_collectives_of_a_captured_rank_equal_the_recorded_ones() -> None:
    """The quick ones again, from the code as it is now."""
    table = loaded("table")
    folder = ROOT / "validation" / "recordings" / "h200" / "distributed"
    row = next(r for r in table.ROWS if r.name == "raw-overlap")
    programs = table.programs_of(row)
    assert (
        table.captured_collectives(programs.of(0))
        == table.recorded_collectives(folder / "raw-overlap-2-rank0.csv.gz")
        == [("AllReduce", 64 * 2**20), ("AllReduce", 4 * 2**20)]
    )
