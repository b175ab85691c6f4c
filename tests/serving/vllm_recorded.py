"""The recorded runs of vLLM on an H200 as measured runs, and what served them."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gpuscope.hardware import parse_target
from gpuscope.program.models import find
from gpuscope.serving.engine import engine
from gpuscope.serving.result import Served, Serving
from gpuscope.serving.simulate import Deployment, deploy

RECORDING = Path(__file__).parents[2] / "validation/recordings/serving/vllm_h200.json.gz"


@cache
def recording() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(RECORDING.read_bytes()))
    return found


@cache
def deployed() -> Deployment:
    told = recording()
    size = find(told["model"]).size
    assert size is not None
    whole = replace(size(), context=told["settings"]["max_model_len"])
    return deploy(told["model"], whole, parse_target(told["device"]), engine("vllm"))


def measured(name: str) -> Serving:
    """One of the runs."""
    run = recording()["runs"][name]
    told = {key: np.asarray(column) for key, column in run["requests"].items()}
    rows = len(told["sent_ms"])
    served = Served(
        intended_s=told["sent_ms"] / 1e3,
        sent_s=told["sent_ms"] / 1e3,
        input_tokens=told["input_tokens"],
        output_tokens=told["output_tokens"],
        first_token_s=told["first_ms"] / 1e3,
        finished_s=told["finished_ms"] / 1e3,
        status=np.zeros(rows, np.int64),
        reason=np.full(rows, -1),
    )
    places = int(run["asked"].get("concurrency", 0))
    return Serving(
        "measured", recording()["model"], "vllm", "0.24", recording()["device"], served,
        settings={"concurrency": places}, name=name,
    )  # fmt: skip


def half(which: str) -> list[Serving]:
    """Of the runs, those that may set constants ("fit"), or the others ("held")."""
    return [measured(n) for n, run in recording()["runs"].items() if run["half"] == which]
