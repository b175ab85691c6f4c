"""The held-out kernels: drawn the same everywhere, split as promised, unlike the calibration's."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def test_the_set_is_what_was_recorded() -> None:
    from held_out.points import all_points

    drawn = {point.text: point for point in all_points()}
    with gzip.open(VALIDATION / "recordings" / "h200" / "held_out.jsonl.gz", "rt") as lines:
        rows = [row for row in map(json.loads, lines) if "us" in row]
    from held_out.points import Point

    texts = {Point(r["kind"], r["params"]).text for r in rows}
    assert texts == set(drawn)
    assert len(drawn) == 1333
    assert all(r["sealed"] == drawn[Point(r["kind"], r["params"]).text].sealed for r in rows)
    assert Counter(p.sealed for p in drawn.values()) == {True: 870, False: 463}
    assert all(r["us"] > 0 for r in rows)


def test_no_product_or_attention_is_of_the_calibrations_own() -> None:
    from held_out.points import all_points

    sizes = ("m", "n", "k", "b", "h", "hkv", "sq", "skv", "d", "vocab", "dim", "count")

    def key(params: dict[str, object]) -> tuple[object, ...]:
        return tuple(params.get(s) for s in sizes)

    for kind in ("matmul", "attention", "gather"):
        path = VALIDATION / "recordings" / "h200" / "micro" / f"{kind}.csv.gz"
        with gzip.open(path, "rt", newline="") as file:
            known = {key(json.loads(row["params"])) for row in csv.DictReader(file)}
        assert len(known) > 10
        assert not known & {key(p.params) for p in all_points([kind])}


def _event(cat: str, name: str, ts: float, dur: float, **args: object) -> dict[str, object]:
    return {"cat": cat, "name": name, "ts": ts, "dur": dur, "args": args}


def test_a_call_owns_the_kernels_launched_inside_its_range() -> None:
    from held_out.points import Point
    from held_out_kernels import by_range, row

    events = [
        _event("user_annotation", "@0hot:1", 0, 10),
        _event("user_annotation", "@0hot:2", 20, 10),
        _event("cuda_runtime", "launch", 1, 1, correlation=5),
        _event("cuda_runtime", "launch", 12, 1, correlation=7),  # between two calls: the flush
        _event("cuda_runtime", "launch", 21, 1, correlation=6),
        _event("kernel", "gemm", 30, 4, correlation=5, grid=[1, 2, 3], block=[4, 1, 1]),
        _event("kernel", "gemm", 40, 6, correlation=6, grid=[1, 2, 3], block=[4, 1, 1]),
        _event("kernel", "fill", 35, 9, correlation=7),
    ]
    calls = list(by_range(events).values())
    found = row(Point("matmul", {}), "hot", 1980, calls)
    assert found["us"] == 5.0
    assert found["kernels"] == [["gemm", "1x2x3", "4x1x1", 1, 5.0]]
    assert "failed" in row(Point("matmul", {}), "hot", None, [])


def test_errors_coverage_and_width_by_hand() -> None:
    from kinds import Judged, figures

    def judged(measured: float, predicted: float) -> Judged:
        return Judged(
            "copy", {}, "hot", True, measured, predicted, 0.8 * predicted, 1.2 * predicted, ()
        )

    found = figures([judged(1.0, 1.1), judged(2.0, 1.0), judged(1.0, float("nan"))])
    assert found["points"] == 2
    assert found["unpredicted"] == 1
    assert found["mean"] == pytest.approx(0.3)
    assert found["coverage"] == 0.5
    assert found["width"] == pytest.approx(0.4)


def test_a_call_is_predicted_cold_first_then_hot() -> None:
    pytest.importorskip("torch")
    from kinds import judge

    params = {
        "op": "mm",
        "dtype": "bf16",
        "m": 8,
        "n": 2048,
        "k": 2048,
        "layout": "nt",
        "regime": "skinny",
    }
    rows = [
        {
            "kind": "matmul",
            "params": params,
            "state": state,
            "sealed": True,
            "us": 5.0,
            "sm_mhz": 1980,
            "kernels": [],
        }
        for state in ("hot", "cold")
    ]
    hot, cold = judge(rows)
    assert 0 < hot.predicted_s < cold.predicted_s
    assert hot.low_s < hot.predicted_s < hot.high_s
