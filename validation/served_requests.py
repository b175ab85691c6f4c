"""A real vLLM's requests, served again by the simulator, and its iterations priced, side by side.

    python validation/served_requests.py [--write]

The recordings are validation/recordings/serving/vllm_h200*.json.gz; runs whose `half` is "fit" may
set constants of the profile, the others may not. Requests go in at the times at which they were
sent, or at the recorded concurrency, with their own lengths, and beginnings where they shared them.
"""

from __future__ import annotations

import argparse
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuscope.hardware import parse_target
from gpuscope.program.lengths import parse_lengths
from gpuscope.program.models import find
from gpuscope.serving.arrivals import Load, make_requests
from gpuscope.serving.engine import engine
from gpuscope.serving.requests import Requests
from gpuscope.serving.simulate import Deployment, deploy, serve_requests

ROOT = Path(__file__).resolve().parents[1]
RECORDINGS = ROOT / "validation" / "recordings" / "serving"
RESULTS = ROOT / "validation" / "results" / "served_requests.json"
FIGURES = ("ttft_mean", "ttft_p50", "ttft_p99", "tpot_mean", "span")


def figures(sent: Any, first: Any, finished: Any, output: Any) -> dict[str, float]:
    """Of all requests of a run, milliseconds."""
    ttft = np.asarray(first) - np.asarray(sent)
    tpot = (np.asarray(finished) - np.asarray(first)) / np.maximum(np.asarray(output) - 1, 1)
    span = np.max(finished) - np.min(sent)
    found = (ttft.mean(), np.median(ttft), np.percentile(ttft, 99), tpot.mean(), span)
    return {name: round(float(value), 3) for name, value in zip(FIGURES, found, strict=True)}


def _beginnings(asked: dict[str, str], rows: int) -> dict[str, Any]:
    """The beginnings that prompts shared: the client's own, from the seed."""
    if asked.get("alike") == "true":
        return {"prefix": np.zeros(rows, int),
                "prefix_tokens": np.full(rows, int(asked["input"]) - 16)}  # fmt: skip
    if "shared" not in asked:
        return {}
    load = Load(
        input=parse_lengths(asked["input"]), output=parse_lengths(asked["output"]), count=rows,
        concurrency=int(asked["concurrency"]), shared_tokens=int(asked["shared"]),
        shared_groups=int(asked["groups"]), seed=int(asked["seed"]),
    )  # fmt: skip
    made = make_requests(load)
    return {"prefix": made.prefix, "prefix_tokens": made.prefix_tokens}


def _again(found: Deployment, asked: dict[str, str], told: dict[str, Any], places: int) -> Any:
    """What the simulator makes of a run's requests: at their times, or so many in flight."""
    sent = np.asarray(told["sent_ms"])
    requests = Requests(
        np.zeros(len(sent)) if places else sent / 1e3,
        np.asarray(told["input_tokens"]),
        np.asarray(told["output_tokens"]),
        concurrency=places,
        **_beginnings(asked, len(sent)),
    )
    served = serve_requests(found, requests).served
    return figures(
        served.sent_s * 1e3, served.first_token_s * 1e3, served.finished_s * 1e3,
        served.output_tokens,
    )  # fmt: skip


def run_of(recorded: dict[str, Any], found: Deployment) -> dict[str, Any]:
    """One run beside its prediction; of a closed loop also with the requests sent when they were.

    A client takes time between an answer and the next request, which a predicted one does not.
    """
    asked, told = recorded["asked"], recorded["requests"]
    places = int(asked.get("concurrency", 0))
    order = np.argsort(told["sent_ms"], kind="stable")
    by_time = {name: np.asarray(column)[order] for name, column in told.items()}
    measured = figures(
        told["sent_ms"], told["first_ms"], told["finished_ms"], told["output_tokens"]
    )
    as_sent = _again(found, asked, by_time, 0)
    predicted = _again(found, asked, told, places) if places else as_sent
    errors = {name: round(predicted[name] / measured[name] - 1, 4) for name in FIGURES}
    return {
        "half": recorded["half"], "requests": len(order),
        "measured": measured, "predicted": predicted, "error": errors,
        "as_sent": as_sent,
    }  # fmt: skip


def recordings() -> list[dict[str, Any]]:
    """One a server: its model, settings, memory and runs."""
    first, rates, bursts, limits = (
        json.loads(gzip.decompress((RECORDINGS / f"vllm_h200{name}.json.gz").read_bytes()))
        for name in ("", "_rates", "_bursts", "_limits")
    )
    rest = (rates, bursts, limits)
    return [first, *(recording for each in rest for recording in each["recordings"])]


def model_of(recording: dict[str, Any]) -> dict[str, Any]:
    """One server's memory and runs beside their predictions."""
    size = find(recording["model"]).size
    assert size is not None
    size_of = replace(size(), context=recording["settings"]["max_model_len"])
    cluster = parse_target(recording["device"])
    eager = "enforce_eager" in recording["settings"]
    started = engine("vllm").without_graphs() if eager else engine("vllm")
    found = deploy(recording["model"], size_of, cluster, started)
    blocks = {"measured": recording["kv_blocks"], "predicted": found.memory.blocks}
    return {
        "model": recording["model"],
        # A window that the model as published has not makes more of them: nothing to compare with.
        "kv_blocks": None if "sliding_window" in recording else blocks,
        "runs": {name: run_of(each, found) for name, each in recording["runs"].items()},
    }


def main() -> None:
    """Serve all runs again, print them, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    told = [model_of(recording) for recording in recordings()]
    print(json.dumps(told, indent=1))
    if options.write:
        RESULTS.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
