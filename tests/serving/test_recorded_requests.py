"""Requests that a real vLLM served on an H200, beside the simulator (recordings/serving)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from vllm_recorded import deployed, measured, recording

from gpuscope.serving.calibrate import asked_again
from gpuscope.serving.metrics import metrics, tpot_s
from gpuscope.serving.simulate import serve_requests

VALIDATION = Path(__file__).parents[2] / "validation"
sys.path.insert(0, str(VALIDATION))

import served_requests  # noqa: E402


def test_blocks_are_as_many_as_vllm_finds() -> None:
    assert deployed().memory.blocks == pytest.approx(recording()["kv_blocks"], rel=0.03)


@pytest.mark.parametrize("name", ["dec.c1", "dec.c4", "dec.c128", "dec.c256", "ctx.c16", "ctx.c64"])
def test_runs_that_set_no_constant(name: str) -> None:
    assert recording()["runs"][name]["half"] == "held"
    truth = measured(name)
    mine = serve_requests(deployed(), asked_again(truth))
    tpot = [float(np.mean(tpot_s(run.served))) for run in (mine, truth)]
    assert tpot[0] == pytest.approx(tpot[1], rel=0.06)
    queued = {"dec.c4": 0.2, "dec.c256": 0.12}  # for who lets requests in and streams tokens
    ttft = [metrics(run).ttft.p50_s for run in (mine, truth)]
    assert ttft[0] == pytest.approx(ttft[1], rel=queued.get(name, 0.05))
    finished = [run.served.finished_s.max() for run in (mine, truth)]
    assert finished[0] == pytest.approx(finished[1], rel=0.05)


def test_bursts_that_set_no_constant() -> None:
    """Prompts that come at once; the work of letting them in was fitted on others."""
    bursts = served_requests.recordings()[4]
    runs = {n: run for n, run in bursts["runs"].items() if n.startswith("apart")}
    assert all(run["half"] == "held" for run in runs.values())
    for name, run in served_requests.model_of(bursts | {"runs": runs})["runs"].items():
        assert abs(run["error"]["ttft_p50"]) < 0.2, name
        assert abs(run["error"]["ttft_mean"]) < 0.15, name
        assert abs(run["error"]["ttft_p99"]) < 0.06, name


def test_without_graphs_the_host_sets_the_pace() -> None:
    eager = served_requests.recordings()[5]
    run = served_requests.model_of(eager)["runs"]["eager.c16"]
    assert run["half"] == "held"
    assert abs(run["error"]["tpot_mean"]) < 0.09
    assert run["measured"]["tpot_mean"] > 4 * 5.4  # with graphs


def test_two_models_up_to_95_percent_of_the_capacity() -> None:
    told = json.loads((VALIDATION / "results" / "served_requests.json").read_text())
    assert [each["model"] for each in told[1:3]] == ["llama-3.1-8b", "qwen3-8b"]
    for kept, one in zip(told[1:3], served_requests.recordings()[1:3], strict=True):
        anew = served_requests.model_of(one | {"runs": {"r60": one["runs"]["r60"]}})
        figures = kept["runs"]["r60"]["predicted"]  # of the page
        assert anew["runs"]["r60"]["predicted"] == pytest.approx(figures, rel=1e-3)
        assert abs(anew["runs"]["r60"]["error"]["span"]) < 0.03
        blocks = anew["kv_blocks"]
        assert blocks["predicted"] == pytest.approx(blocks["measured"], rel=0.03)
