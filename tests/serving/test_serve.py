"""`gs.serve` and the command: what is told, and what is refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.cli.app import make_app
from gpuscope.errors import GpuscopeError, OverLimitError
from gpuscope.hardware import device
from gpuscope.program.models import find
from gpuscope.serving.document import load_serving, serving_document
from gpuscope.serving.engine import engine, engines
from gpuscope.serving.gains import gains
from gpuscope.serving.memory import kv_memory
from gpuscope.serving.metrics import metrics
from gpuscope.serving.quantization import quantization
from gpuscope.serving.slo import parse_slo
from gpuscope.serving.verb import deployment


def test_a_seed_gives_equal_runs_and_more_bandwidth_is_no_slower() -> None:
    asked = {"rate": 4.0, "requests": 120, "input": "100..900", "output": 50}
    one, same = (gs.serve("llama-3.1-8b", "h100", **asked)[0] for _ in range(2))
    assert serving_document(one) == serving_document(same)
    faster = gs.serve("llama-3.1-8b", "h200", **asked)[0]
    assert metrics(faster).tpot.mean_s < metrics(one).tpot.mean_s


def test_a_decode_step_reads_the_weights_once() -> None:
    """16 GB at 4.8 TB/s are 3.3 ms: one sequence decodes at no less, and at less than twice."""
    found = gs.serve("llama-3.1-8b", "h200", concurrency=[1], requests=5, output=64)[0]
    assert 3.3e-3 < metrics(found).tpot.p50_s < 6.6e-3


def test_bursts_come_closer_together_and_wait_longer() -> None:
    asked = {"rate": 12.0, "requests": 300, "arrivals": "gamma"}
    even, bursts = (gs.serve("llama-3.1-8b", "h200", **asked, burstiness=b)[0] for b in (1.0, 9.0))
    assert metrics(bursts).ttft.mean_s > 1.3 * metrics(even).ttft.mean_s
    spread = [np.diff(run.served.intended_s) for run in (even, bursts)]
    assert spread[1].std() / spread[1].mean() > 2 * spread[0].std() / spread[0].mean()


def test_experts_tokens_are_sorted_apart_before_blackwell() -> None:
    def serial_s(on: str, model: str, dtype: str) -> float:
        return deployment(model, on, dtype=dtype).engine.serial_s

    for on, dtype in (("h200", "mxfp4"), ("b200", "int4")):  # Triton's products, and Marlin's
        assert serial_s(on, "gpt-oss-120b", dtype) == pytest.approx(36 * engine("vllm").mixture_s)
    assert serial_s("b200", "gpt-oss-120b", "mxfp4") == 0
    assert serial_s("h200", "llama-3.1-8b", "bfloat16") == 0
    assert deployment("gpt-oss-120b", "h200", "tensorrt-llm", dtype="mxfp4").engine.mixture_s == 0


def test_quantized_experts_are_slower_on_hopper_where_there_is_much_arithmetic() -> None:
    asked: dict[str, Any] = {"dtype": "mxfp4", "engine": "vllm"}
    cost = deployment("gpt-oss-120b", "h200", **asked).cost
    other = deployment("gpt-oss-120b", "h200", "tensorrt-llm", dtype="mxfp4").cost
    assert cost.dense_s(8192.0) > 1.15 * other.dense_s(8192.0)
    assert cost.dense_s(1.0) == pytest.approx(other.dense_s(1.0))  # memory sets the pace


def test_time_is_accounted_for() -> None:
    served = gs.serve("llama-3.1-8b", "h200", rate=20, requests=200)[0].served
    parts = (
        served.queue_s + served.prefill_s + served.behind_s + served.decode_device_s
        + served.decode_host_s + served.preempted_s
    )  # fmt: skip
    whole = served.finished_s - served.intended_s
    assert np.allclose(parts, whole, rtol=0.02, atol=2e-3)


def test_blocks_are_what_weights_leave() -> None:
    size = find("llama-3.1-8b").size()
    h200 = device("h200")
    found = kv_memory(size, quantization("bf16", h200), h200)
    assert found.token_bytes == 2 * 32 * 8 * 128 * 2
    assert found.weights_bytes == pytest.approx(8.03e9 * 2, rel=0.01)
    used = found.blocks * 16 * found.token_bytes + found.weights_bytes + found.activations_bytes
    assert used == pytest.approx(0.9 * h200.memory_usable_bytes, rel=0.02)
    eight = kv_memory(size, quantization("fp8", h200), h200, cache_bytes=1.0)
    assert eight.blocks > 2 * found.blocks


def test_profiles_are_whole() -> None:
    assert set(engines()) >= {"onnxruntime", "sglang", "static", "tensorrt", "tensorrt-llm", "vllm"}
    assert all(engine(name).max_tokens >= 1024 for name in engines())


@pytest.mark.parametrize(
    ("how", "word"),
    [
        ({}, "No load"),
        ({"concurrency": [0]}, "serves nobody"),
        ({"concurrency": [4], "rate": 2.0}, "Both a rate and a concurrency"),
        ({"rate": 1, "tp": 3}, "does not divide"),
        ({"rate": 1, "tp": 2}, "target has 1"),
        ({"rate": 1, "engine": "vlm"}, "vllm"),
        ({"rate": 1, "input": "200000"}, "beyond the context"),
        ({"rate": 1, "dtype": "fp3"}, "fp8"),
        ({"rate": 1, "kv_blocks": 3}, "longest request"),
        ({"rate": -1.0}, "cannot be"),
        ({"rate": 1, "requests": 0}, "requests = 0 cannot be"),
        ({"concurrency": [4], "requests": 0}, "requests = 0 cannot be"),
        ({"concurrency": [4], "requests": -5}, "requests = -5 cannot be"),
        ({"rate": 1, "kv_dtype": "fp7"}, "--kv-dtype bfloat16 or fp8"),
        ({"rate": 1, "max_tokens": 0}, "max_tokens cannot be 0"),
        ({"rate": 1, "seats": 4}, "no setting 'seats'"),
        ({"arrivals": "no-such.csv"}, "cannot be read"),
        ({"rate": 1, "tp": 0}, "tp cannot be 0"),
        ({"rate": 1, "replicas": 0}, "replicas cannot be 0"),
        ({"rate": 1, "replicas": 2}, "2 devices are needed (2 x 1)"),
        ({"rate": 1, "kv_blocks": 0}, "kv_blocks cannot be 0"),
        ({"rate": 1, "router": "nearest"}, "least-load"),
        ({"rate": 1, "policy": "lpm"}, "priority"),
        ({"rate": 1, "speculate": "k=0,accept=1"}, "no way to draft"),
        ({"rate": 1, "decode": "h100"}, "both named"),
        ({"rate": 1, "engine": "no-such.pbtxt"}, "no config.pbtxt"),
    ],
)
def test_what_cannot_be(how: dict[str, object], word: str) -> None:
    with pytest.raises(GpuscopeError) as caught:
        gs.serve("llama-3.1-8b", "h200", **how)
    assert word in str(caught.value)


def test_a_model_that_does_not_fit_says_by_how_much() -> None:
    with pytest.raises(gs.DoesNotFitError, match=r"does not fit .*--tp 2"):
        gs.serve("llama-3.1-70b", "h200", rate=1)
    with pytest.raises(GpuscopeError, match="no fp8"):
        gs.serve("llama-3.1-8b", "a100", rate=1, dtype="fp8")


def test_limits_that_nothing_keeps_are_told_with_the_nearest() -> None:
    words = ["llama-3.1-8b", "--rate", "2", "--requests", "40", "--slo", "ttft<1us,tpot<1us"]
    told = CliRunner().invoke(make_app(["serve", "compare"]), ["serve", *words])
    assert told.exit_code == 0
    assert "No request keeps the limits; the quickest took" in " ".join(told.output.split())


def test_the_highest_rate_within_limits_is_on_the_edge() -> None:
    how: dict[str, object] = {"requests": 300, "input": 512, "output": 100}
    limits = parse_slo("ttft<200ms,tpot<12ms")
    run = gs.serve("llama-3.1-8b", "h200", slo="ttft<200ms,tpot<12ms", **how)[0]
    told = run.settings
    best = float(told["highest_rate_per_s"])
    assert float(told["highest_rate_low_per_s"]) < best < float(told["highest_rate_high_per_s"])
    for times, holds in ((0.97, True), (1.05, False)):
        again = gs.serve("llama-3.1-8b", "h200", rate=best * times, **how)[0]
        kept = metrics(again, limits).kept_share
        assert kept is not None
        assert (kept >= 0.99) == holds
    words = ["llama-3.1-8b", "--slo", "ttft<1s,tpot<20ms", "--requests", "100"]
    shown = CliRunner().invoke(make_app(["serve", "compare"]), ["serve", *words])
    assert "Highest rate at which" in shown.output


def test_limits_out_of_reach_are_refused_with_the_nearest_within_it() -> None:
    how: dict[str, object] = {"requests": 100, "input": 512, "output": 100}
    with pytest.raises(OverLimitError, match="at no rate") as refused:
        gs.serve("llama-3.1-8b", "h200", slo="ttft<10s,tpot<1us", **how)
    reached = str(refused.value.next_step).split('"')[1]
    assert reached.startswith("ttft<10000ms,tpot<")
    assert gs.serve("llama-3.1-8b", "h200", slo=reached, **how)[0].settings["highest_rate_per_s"]
    words = ["serve", "llama-3.1-8b", "--slo", "tpot<1us", "--requests", "100"]
    assert CliRunner().invoke(make_app(["serve", "compare"]), words).exit_code == 3


def test_keys_and_values_in_fp8_need_no_fp8_of_the_device() -> None:
    """Stored in it, widened when read: room for twice as many, and a note."""
    one, two = (
        gs.serve("llama-3.1-8b", "a100", rate=1, requests=10, kv_dtype=dtype)[0]
        for dtype in ("bfloat16", "fp8")
    )
    assert two.kv_blocks == pytest.approx(2 * one.kv_blocks, abs=2)
    assert any("has no fp8: keys and values are stored" in note for note in two.notes)
    native = gs.serve("llama-3.1-8b", "h200", rate=1, requests=10, kv_dtype="fp8")[0]
    assert not any("no fp8" in note for note in native.notes)


def test_a_few_requests_come_as_fast_as_they_were_asked_for() -> None:
    def saturated(**how: Any) -> bool:
        return gs.serve("llama-3.1-8b", "h200", output=32, **how)[0].saturated

    assert saturated(rate=900, requests=20)
    assert saturated(rate=900, requests=1)
    assert not saturated(rate=5, requests=20)
    # Ten at once may be all there are.
    assert not saturated(arrivals="steps:900x1", requests=10)


@pytest.mark.parametrize("requests", ["20", "600"])
def test_an_unstable_queue_has_a_capacity_and_no_latency(requests: str) -> None:
    told = CliRunner().invoke(
        make_app(["serve", "compare"]),
        ["serve", "llama-3.1-8b", "--rate", "500", "--requests", requests],
    )
    assert told.exit_code == 0, told.output
    assert "More comes than it can serve" in told.output
    assert "Latencies" not in told.output


def test_capacity_is_what_a_full_engine_serves() -> None:
    """Just above it the queue grows, and what passes is no more than it."""
    found = gs.serve("llama-3.1-8b", "h200", rate=60, requests=1000)[0]
    assert found.saturated
    passed = metrics(found).requests_per_s
    assert passed is not None
    assert found.capacity_per_s is not None
    assert 0.8 * found.capacity_per_s < passed < 1.2 * found.capacity_per_s


def test_the_command_saves_compares_and_speaks_chinese(tmp_path: Path) -> None:
    cli = CliRunner()
    app = make_app(["serve", "compare"])
    paths = [str(tmp_path / name) for name in ("a.json.gz", "b.json")]
    for path, on in zip(paths, ("h200", "h100"), strict=True):
        words = ["llama-3.1-8b", "--on", on, "--rate", "4", "--requests", "100", "--output", path]
        assert cli.invoke(app, ["serve", *words]).exit_code == 0
        assert load_serving(path).engine == "vllm"
    assert cli.invoke(app, ["compare", *paths]).exit_code == 0
    told = cli.invoke(app, ["compare", *paths, "--lang", "zh"])
    assert "中位数" in told.output
    none = tmp_path / "none.json"
    none.write_text("")
    told = cli.invoke(app, ["compare", paths[0], str(none)])
    assert "none.json is empty" in told.output + str(told.exception)
    words = ["llama-3.1-8b", "--rate", "4", "--requests", "50", "--slo", "ttft<1s"]
    page = tmp_path / "x.html"
    told = cli.invoke(app, ["serve", *words, "--lang", "zh", "--report", str(page)])
    assert "延迟" in told.output
    assert page.stat().st_size > 10_000
    told = cli.invoke(app, ["serve", *words, "--json"])
    assert json.loads(told.stdout)["schema"] == "gpuscope.serving"
    assert cli.invoke(app, ["serve", "llama-3.1-8b"]).exit_code == 2


def test_changes_use_the_same_devices_otherwise() -> None:
    asked = {"tp": 2, "rate": 5.0, "requests": 5, "input": 50, "output": 5}
    found = gains("qwen3-30b-a3b", "4xh100", asked)
    used = {(one.run.settings["tp"], one.run.settings["replicas"]) for one in found}
    assert used == {(1, 4), (2, 2), (4, 1), (1, 2)}  # of the last one, two stages
    assert [one.run.settings["attention_dp"] for one in found].count(2) == 1
    plain = gains("llama-3.1-8b", "2xh100", {**asked, "rate": 1.0})
    assert all(one.run.settings["attention_dp"] == 1 for one in plain)
