"""How kernels are joined to calls and summarised, on small made-up traces."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

pytest.importorskip("torch")
import harness


def _range(name: str, start: float, duration: float) -> dict[str, Any]:
    return {"ph": "X", "cat": "user_annotation", "name": name, "ts": start, "dur": duration}


def _launch(correlation: int, start: float, category: str = "cuda_runtime") -> dict[str, Any]:
    args = {"correlation": correlation}
    return {"ph": "X", "cat": category, "name": "launch", "ts": start, "dur": 1, "args": args}


def _kernel(name: str, correlation: int, start: float, duration: float) -> dict[str, Any]:
    args = {"correlation": correlation, "grid": [2, 66, 1], "block": [384, 1, 1],
            "registers per thread": 168, "shared memory": 1024}  # fmt: skip
    return {"ph": "X", "cat": "kernel", "name": name, "ts": start, "dur": duration, "args": args}


def test_a_kernel_belongs_to_the_range_of_its_launch_not_of_its_run() -> None:
    trace = {"traceEvents": [
        _range("@0:hot:0", 100, 20), _range("@0:hot:1", 200, 20),
        _launch(1, 110), _launch(2, 150), _launch(3, 210, "cuda_driver"),
        # all run while the second range is open on the host
        _kernel("first", 1, 201, 5), _kernel("flush", 2, 207, 5), _kernel("second", 3, 214, 5),
    ]}  # fmt: skip
    found = harness.events_by_range(trace)
    assert [e.name for e in found["@0:hot:0"]] == ["first"]
    assert [e.name for e in found["@0:hot:1"]] == ["second"]


def test_the_earlier_of_runtime_and_driver_records_counts_as_the_launch() -> None:
    trace = {"traceEvents": [
        _range("@0:hot:0", 100, 20), _launch(1, 119), _launch(1, 121, "cuda_driver"),
        _kernel("k", 1, 300, 5),
    ]}  # fmt: skip
    assert len(harness.events_by_range(trace)["@0:hot:0"]) == 1


def test_summary_takes_medians_gaps_and_drops_the_odd_repetition() -> None:
    def rep(start: float, first: float, gap: float) -> list[harness.KernelEvent]:
        a = harness.KernelEvent("a", "kernel", start, first, {"grid": [1, 2, 3]})
        b = harness.KernelEvent("b", "kernel", start + first + gap, 7.0, {})
        return [a, b]

    reps = [rep(0, 1.0, 0.5), rep(100, 3.0, 0.7), rep(200, 2.0, 0.6), rep(300, 9.0, 9.0)[:1]]
    rows = [dict(zip(harness.COLUMNS[3:-1], row, strict=True)) for row in harness.summarise(reps)]
    assert [r["kernel"] for r in rows] == ["a", "b"]
    assert rows[0]["median_us"] == 2.0
    assert rows[0]["min_us"] == 1.0
    assert rows[0]["n"] == 3
    assert rows[0]["grid"] == "1x2x3"
    assert rows[0]["gap_us"] == ""
    assert rows[1]["gap_us"] == pytest.approx(0.6)


def test_many_kernels_are_grouped_with_their_count_and_keep_their_total() -> None:
    many = [harness.KernelEvent("k", "kernel", 10.0 * i, 2.0, {}) for i in range(30)]
    many += [harness.KernelEvent("last", "kernel", 400.0, 5.0, {})]
    rows = [dict(zip(harness.COLUMNS[3:-1], r, strict=True)) for r in harness.summarise([many] * 2)]
    assert [(r["kernel"], r["count"]) for r in rows] == [("k", 30), ("last", 1)]
    assert sum(r["count"] * r["median_us"] for r in rows) == pytest.approx(65.0)


def test_a_call_without_kernels_gives_no_rows() -> None:
    assert harness.summarise([[], []]) == []
