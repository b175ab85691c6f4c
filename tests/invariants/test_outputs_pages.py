"""Invariants over pages of several runs, runs read back, and explanations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from outputs import BUILT_IN, OWN, TRACES, built_in, own, recorded, told

from gpuscope import api, explain
from gpuscope.analysis.roofs import Roofs
from gpuscope.atomic import write_document
from gpuscope.hardware import device
from gpuscope.invariants import check
from gpuscope.learn.claims.document import claims_document
from gpuscope.loading import load
from gpuscope.program.workload import WorkloadOptions
from gpuscope.run import Run
from gpuscope.run.document import run_document
from gpuscope.views.check import output_of
from gpuscope.views.explanation import explanation_document
from gpuscope.views.report.data import report_data


def _on(name: str) -> Run:
    model, _, options = BUILT_IN["gpt2 prefill"]
    return api.predict(model, name, options=WorkloadOptions(**options))


def _two() -> Mapping[str, tuple[Run, Run]]:
    balanced, late = (TRACES / "4xh200" / name for name in ("ddp_balanced", "ddp_imbalance"))
    return {
        "two devices": (built_in("gpt2 prefill"), _on("h200")),
        "two builds": (own("own build that waits"), own("own build that copies")),
        "two recordings": (recorded(balanced), recorded(late)),
        "predicted and recorded": (
            built_in("gpt2 decode"),
            recorded(TRACES / "h200" / "graph_decode"),
        ),
    }


@pytest.mark.parametrize(
    "name", ["two devices", "two builds", "two recordings", "predicted and recorded"]
)
def test_a_comparison(name: str) -> None:
    first, second = _two()[name]
    page = report_data([first, second], "en")
    found = check(output_of(first, page))
    assert [v for v in found.violations if v.rule != "gains"] == []


def test_a_run_that_was_read_back(tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    write_document(run_document(built_in("gpt2 train, small")), path)
    assert told(check(output_of(load(str(path))))) == ""


EXPLAINED: Mapping[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "matmul": ("matmul", (8192, 50257, 768), {"on": "h200"}),
    "small matmul": ("matmul", (128, 128, 128), {"dtype": "fp16", "on": "rtx-4090"}),
    "occupancy": ("occupancy", (), {"threads": 256, "registers": 64, "on": "h200"}),
    "attention": ("attention", (4, 16, 2048, 128), {"causal": True, "on": "h100"}),
    "attention backward": ("attention", (1, 32, 4096, 128), {"on": "a100", "backward": True}),
    "decode": ("attention", (8, 32, 1, 128), {"kv_heads": 8, "kv_seq": 4096, "on": "b200"}),
    "conv": ("conv", (64, 256, 56, 56, 64), {"kernel": 1, "padding": 0, "on": "h200"}),
    "transfer": ("transfer", ("1GB",), {"on": "h200"}),
    "memory": ("memory", (OWN["own build"],), {"on": "h200"}),
    "collective": ("collective", ("all_reduce", 64 << 20), {"on": "8xh200"}),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_an_explanation(name: str) -> None:
    """No share above one, no rate above what the device has, in any of its blocks."""
    topic, arguments, options = EXPLAINED[name]
    document = explanation_document(explain(topic, *arguments, **options))
    found = device(options["on"].removeprefix("8x"))
    peak = max(Roofs(found).peaks().values())
    # What its caches carry is stated nowhere; nothing carries ten times as much as its memory.
    most = {
        "share": 1.0,
        "percent": 1.0,
        "flop/s": peak,
        "bytes/s": 10 * found.memory_bandwidth_bytes_per_s,
    }
    wrong = [(u, v) for u, v in _figures(document) if u in most and v > most[u] * (1 + 1e-6)]
    assert wrong == []


def test_claims() -> None:
    """Verdicts that follow from what stands beside them, and no page with a figure that cannot be.

    That a model in a claim says what `predict` says: tests/learn/claims.
    """
    document = claims_document()
    claims = document["claims"]
    assert sum(document["counts"].values()) == len(claims)
    for claim in claims:
        decided = claim["verdict"] != "cannot say"
        # A true value, its way and its source stand beside every verdict but the honest "cannot".
        assert not decided or (claim["truth"] and claim["evidence"]), claim["id"]
        assert claim["method"] != "none" or not claim["values"], claim["id"]
        if claim["unit"] in ("%", "percent") and "model" in claim["method"]:
            assert all(value <= 100.0 * (1 + 1e-9) for value in claim["values"]), claim["id"]
        if isinstance(claim["claimed"], int | float) and claim["values"]:
            near = any(_near(value, claim["claimed"], 1e-9) for value in claim["values"])
            assert not (near and claim["verdict"] == "wrong"), claim["id"]
            far = all(not _near(value, claim["claimed"], 1.0) for value in claim["values"])
            assert not (far and claim["verdict"] == "right"), claim["id"]


def _near(value: float, other: float, within: float) -> bool:
    return abs(value - other) <= within * max(abs(value), abs(other))


def _figures(node: Any) -> Iterator[tuple[str, float]]:
    """Every figure of a block with its unit: facts, columns of tables, bars."""
    if isinstance(node, list):
        for each in node:
            yield from _figures(each)
    if not isinstance(node, dict):
        return
    if isinstance(node.get("value"), int | float) and "unit" in node:
        yield node["unit"], node["value"]
    if node.get("block") == "table":
        for row in node["rows"]:
            for column, cell in zip(node["columns"], row, strict=True):
                if isinstance(cell, int | float):
                    yield column["unit"], cell
    if node.get("block") == "bars":
        for bar in node["bars"]:
            yield node["unit"], sum(part["value"] for part in bar["parts"])
    for each in node.values():
        yield from _figures(each)
