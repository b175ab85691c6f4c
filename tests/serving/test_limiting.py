"""What limits a run: each limit by hand, from its iterations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gpuscope as gs
from gpuscope.serving.limiting import limiting, narrower
from gpuscope.serving.metrics import metrics
from gpuscope.serving.result import Iterations, Served, Serving
from gpuscope.serving.story import story

SETTINGS = {"max_tokens": 1000, "max_sequences": 10, "pp": 1}


def run(settings: dict[str, Any] = SETTINGS, **columns: list[float]) -> Serving:
    """Four iterations of 10 ms, of which the device takes 9; columns by hand."""
    every = {
        "steps": [1] * 4, "device_s": [9e-3] * 4, "host_s": [1e-3] * 4, "prefill_tokens": [0] * 4,
        "decode_sequences": [3] * 4, "kv_blocks_used": [10] * 4, "waiting": [0] * 4,
        "preemptions": [0] * 4, "replica": [0] * 4, **columns,
    }  # fmt: skip
    rows = Iterations(
        np.arange(4) * 1e-2, **{name: np.array(values) for name, values in every.items()}
    )
    one = np.zeros(1)
    served = Served(one, one, np.ones(1, int), np.ones(1, int), one, one, one.astype(int), one)  # type: ignore[arg-type]
    return Serving("predicted", "m", "e", "1", "d", served, settings=settings, iterations=rows,
                   kv_blocks=100)  # fmt: skip


def kinds(made: Serving) -> list[str]:
    return [each.kind for each in limiting(made)]


def test_nothing_limits_what_nobody_waits_for() -> None:
    assert kinds(run()) == []
    assert kinds(run(kv_blocks_used=[100] * 4, decode_sequences=[10] * 4)) == []


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("kv_bound", {"kv_blocks_used": [96, 96, 10, 10], "waiting": [1] * 4}),
        ("sequence_bound", {"decode_sequences": [10, 10, 3, 3], "waiting": [1] * 4}),
        ("token_bound", {"prefill_tokens": [990, 990, 0, 0], "waiting": [1] * 4}),
        ("host_bound", {"host_s": [0.01, 0.01, 0.001, 0.001]}),
    ],
)
def test_each_limit_is_told_with_its_share_of_the_time(
    kind: str, columns: dict[str, list[float]]
) -> None:
    (found,) = limiting(run(**columns))
    assert found.kind == kind
    assert ("66 %" if kind == "host_bound" else "50") in found.evidence


def test_shares_of_the_device_are_told_from_the_settings() -> None:
    assert kinds(run({**SETTINGS, "weights_share": 0.8, "link_share": 0.2})) == [
        "bandwidth_bound",
        "communication_bound",
    ]
    assert kinds(run({**SETTINGS, "weights_share": 0.4, "link_share": 0.01})) == []


@pytest.mark.parametrize(
    ("device", "dtype", "names"),
    [
        ("h200", "bfloat16", ["fp8"]),
        ("2xa100", "bfloat16", ["int4"]),  # it has no fp8
        ("2xh100 + h200", "fp8", ["int4"]),
        ("h200", "int4", []),
        ("gone", "bfloat16", []),
    ],
)
def test_weights_of_fewer_bits_are_those_of_the_device(
    device: str, dtype: str, names: list[str]
) -> None:
    made = replace(run({**SETTINGS, "dtype": dtype}), devices=device)
    assert [str(each) for each in narrower(made)] == [f"--dtype {name}" for name in names]


def test_runs_are_limited_by_what_they_lack() -> None:
    how: dict[str, Any] = {"input": 200, "output": 60, "requests": 100}
    lone = gs.serve("llama-3.1-8b", concurrency=[1], **how)[0]
    assert kinds(lone)[0] == "bandwidth_bound"
    assert 0.6 < float(lone.settings["weights_share"]) < 1.0
    tight = gs.serve("llama-3.1-8b", rate=1000.0, kv_blocks=200, **how)[0]
    assert kinds(tight)[0] == "kv_bound"
    few = gs.serve("llama-3.1-8b", rate=1000.0, max_sequences=4, **how)[0]
    assert kinds(few)[0] == "sequence_bound"
    pair = gs.serve("llama-3.1-8b", "2xh200", rate=1.0, **how)[0]
    assert "communication_bound" in kinds(pair)
    shown = [block.title for block in story([tight]).sections[0].blocks]  # type: ignore[union-attr]
    assert "What limits" in shown


def test_a_million_tokens_cost_what_the_devices_do_meanwhile() -> None:
    run = gs.serve("llama-3.1-8b", "2xh200", rate=2.0, requests=50, input=100, output=20)[0]
    found, price = metrics(run), gs.device("h200").price_usd_per_hour
    assert price is not None
    assert found.usd_per_million == pytest.approx(
        2 * price * found.duration_s / 3600 / 1000 * 1e6, rel=1e-9
    )


def test_the_knee_is_where_throughput_over_latency_is_highest() -> None:
    runs = gs.serve("llama-3.1-8b", concurrency=[1, 8, 64, 1024], input=200, output=50)
    found = [metrics(each) for each in runs]
    power = [(each.output_tokens_per_s or 0.0) / (each.e2e.mean_s or 1.0) for each in found]
    at = power.index(max(power))
    said = str(story(runs).summary[0])
    assert 0 < at < 3
    assert str(runs[at].settings["concurrency"]) in said
    assert "The knee is at" in said
    assert "up to the last load" in str(story(runs[:2]).summary[0])
