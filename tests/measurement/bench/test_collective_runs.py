"""Ranks are started, measure on Gloo, and what they wrote is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.measurement.bench.collective_calls import OPERATIONS
from gpuscope.measurement.bench.collective_runs import join_as_rank, read_rows, run_ranks
from gpuscope.measurement.bench.collectives import points

ROW = {
    "bench": "collectives",
    "operation": "all_reduce",
    "ranks": 4,
    "bytes": 4096,
    "state": "loop",
    "seconds": [2e-5, 3e-5, 4e-5],
    "calls": 10,
}


def test_three_processes_measure_every_collective() -> None:
    found = run_ranks(3, "cpu", quick=True, largest_bytes=6 * 1024)
    assert {s.operation for s in found.samples} == set(OPERATIONS)
    assert all(s.ranks == 3 and s.state == "loop" for s in found.samples)
    assert all(seconds > 0 for s in found.samples for seconds in s.seconds)
    assert {s.size_bytes % 3 for s in found.samples} == {0}  # whole elements for every rank
    assert found.facts["backend"] == "gloo"
    assert not found.failures


def test_one_rank_is_no_group() -> None:
    with pytest.raises(InvalidValueError):
        run_ranks(1, "cpu", quick=True)


def test_rows_cut_off_or_strange_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    failed = {"operation": "reduce", "ranks": 4, "bytes": 8, "failed": "unsupported"}
    path.write_text("\n".join([json.dumps(ROW), json.dumps(failed), '{"opera', "7"]))
    found = read_rows(path)
    assert len(found.samples) == 1
    assert found.failures == ("reduce, 4 ranks, 8 bytes: unsupported",)


def test_a_file_without_measurements_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("hello\n")
    with pytest.raises(InputFileError):
        read_rows(path)
    with pytest.raises(InputFileError):
        read_rows(tmp_path / "absent.jsonl")


def test_points_carry_bandwidths_and_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    facts = {"facts": True, "backend": "nccl", "environment": {"NCCL_NVLS_ENABLE": "0"}}
    beside = ROW | {"what": "product", "alone_s": 1e-5}
    path.write_text("\n".join(json.dumps(r) for r in (facts, ROW, beside)))
    environment, alone, product = points(read_rows(path), None)
    assert environment.params["NCCL_NVLS_ENABLE"] == "0"
    assert environment.median_s is None
    assert alone.median_s == pytest.approx(3e-5)
    assert alone.values["algorithm_bytes_per_s"] == pytest.approx(4096 / 3e-5)
    assert alone.values["bus_bytes_per_s"] == pytest.approx(1.5 * 4096 / 3e-5)
    assert product.values["slowdown"] == pytest.approx(3.0)


def test_only_other_ranks_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert not join_as_rank(None, "cpu", quick=True)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert not join_as_rank(None, "cpu", quick=True)
    monkeypatch.setenv("RANK", "1")
    assert join_as_rank(("matmul",), "cpu", quick=True)  # nothing to do for it
