"""Requests that a real vLLM served on an H200, beside the simulator (recordings/serving)."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuscope.hardware import parse_target
from gpuscope.program.models import find
from gpuscope.serving.engine import engine
from gpuscope.serving.requests import Requests
from gpuscope.serving.simulate import Deployment, deploy, serve_requests

RECORDING = Path(__file__).parents[2] / "validation/recordings/serving/vllm_h200.json.gz"


@pytest.fixture(scope="module")
def told() -> dict:  # type: ignore[type-arg]
    return json.loads(gzip.decompress(RECORDING.read_bytes()))


@pytest.fixture(scope="module")
def deployed(told: dict) -> Deployment:  # type: ignore[type-arg]
    size = find(told["model"]).size
    assert size is not None
    whole = replace(size(), context=told["settings"]["max_model_len"])
    return deploy(told["model"], whole, parse_target(told["device"]), engine("vllm"))


def test_blocks_are_as_many_as_vllm_finds(told: dict, deployed: Deployment) -> None:  # type: ignore[type-arg]
    assert deployed.memory.blocks == pytest.approx(told["kv_blocks"], rel=0.03)


@pytest.mark.parametrize("name", ["dec.c1", "dec.c4", "dec.c128", "dec.c256", "ctx.c16", "ctx.c64"])
def test_runs_that_set_no_constant(name: str, told: dict, deployed: Deployment) -> None:  # type: ignore[type-arg]
    run = told["runs"][name]
    assert run["half"] == "held"
    asked = run["requests"]
    count, output = len(asked["sent_ms"]), np.array(asked["output_tokens"])
    served = serve_requests(
        deployed,
        Requests(
            np.zeros(count),
            np.array(asked["input_tokens"]),
            output,
            concurrency=int(run["asked"]["concurrency"]),
        ),
    ).served
    first, finished = np.array(asked["first_ms"]), np.array(asked["finished_ms"])
    tpot = np.mean((finished - first) / (output - 1)) / 1e3
    mine = np.mean((served.finished_s - served.first_token_s) / (output - 1))
    batched = name in ("dec.c128", "dec.c256")  # tokens queue for who streams them
    assert mine == pytest.approx(tpot, rel=0.12 if batched else 0.06)
    waited = np.median(first - np.array(asked["sent_ms"])) / 1e3
    burst = name == "dec.c4"  # its first iteration starts 30 ms late
    told_first = np.median(served.first_token_s - served.sent_s)
    assert told_first == pytest.approx(waited, rel=0.2 if burst else 0.08)
    assert served.finished_s.max() == pytest.approx(finished.max() / 1e3, rel=0.08)
