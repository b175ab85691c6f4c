"""A real vLLM's requests by the engine's own clock, beside the simulator: what CASYS recorded.

    python validation/scheduler_alone.py FOLDER [--write]

FOLDER is a copy of https://github.com/casys-kaist/LLMServingSim (MIT, CASYS Lab at KAIST), of which
bench/examples/*/*/vllm and workloads are read; nothing of it is part of this project. vLLM 0.19.0
served 300 requests at 10 a second on RTX 4090 and RTX PRO 6000, devices and runs that no constant
of gpuscope's has seen. Times are those of the engine (queued, first token, last token), so that
HTTP and streaming are left out of the profile.

"as it is": the kernel models and the profile. "half": one factor on device time, such that the mean
TPOT of the first half of the requests is as measured, which is what iterations took; figures of the
second half: who waits, starts and is put off when follows from the scheduler alone. "kv_use": the
share of the blocks in use each second, where it was logged.
"""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuscope.hardware import parse_target
from gpuscope.program.models import find
from gpuscope.serving.engine import engine
from gpuscope.serving.metrics import e2e_s, tpot_s, ttft_s
from gpuscope.serving.requests import Floats, Requests
from gpuscope.serving.result import Served, Serving
from gpuscope.serving.simulate import Deployment, deploy, serve_requests

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "validation" / "results" / "scheduler_alone.json"
BLOCK = 16
DEVICES = {"RTX4090": "rtx-4090", "RTXPRO6000": "rtx-pro-6000-blackwell"}
MODELS = {"Llama-3.1-8B": "llama-3.1-8b", "Qwen3-32B": "qwen3-32b",
          "Qwen3-30B-A3B-Instruct-2507": "qwen3-30b-a3b"}  # fmt: skip
METRICS = {"ttft": ttft_s, "tpot": tpot_s, "e2e": e2e_s}


def lines(path: Path) -> list[dict[str, Any]]:
    """Rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def recorded(folder: Path, meta: dict[str, Any], runs: Path) -> tuple[Requests, Serving]:
    """What was asked, prompts' blocks by their tokens, and what became of it."""
    rows = sorted(lines(runs / "requests.jsonl"), key=lambda row: float(row["queued_ts"]))
    prompts = [each["input_tok_ids"] for each in lines(folder / meta["dataset_path"])]
    names: dict[tuple[int, ...], int] = {}
    blocks: list[list[int]] = []
    for row in rows:
        ids = prompts[int(row["request_id"].removeprefix("bench-"))]
        parts = [tuple(ids[at : at + BLOCK]) for at in range(0, len(ids) - BLOCK + 1, BLOCK)]
        blocks.append([names.setdefault(part, len(names)) for part in parts])

    def column(name: str) -> Floats:
        return np.array([row[name] for row in rows], np.float64)

    begun = column("queued_ts")
    asked = Requests(
        begun - begun[0], column("input_toks").astype(int), column("output_toks").astype(int),
        blocks=np.array([name for one in blocks for name in one]),
        block_start=np.cumsum([0, *map(len, blocks)]), block_tokens=BLOCK,
    )  # fmt: skip
    served = Served(
        asked.arrival_s, asked.arrival_s, asked.input_tokens, asked.output_tokens,
        column("first_token_ts") - begun[0], column("last_token_ts") - begun[0],
        np.zeros(len(rows), np.int64), np.full(len(rows), -1),
    )  # fmt: skip
    return asked, Serving("measured", meta["model"], "vllm", meta["vllm_version"], "", served)


def deployed(meta: dict[str, Any], model: str, device: str) -> Deployment:
    """As it was started; blocks as logged, where they are."""
    how = meta["engine_kwargs"]
    profile = replace(
        engine("vllm-0.19"), max_tokens=how["max_num_batched_tokens"],
        max_sequences=how["max_num_seqs"],
        request_s=0.0, accept_s=0.0, accept_token_s=0.0, reply_s=0.0, token_s=0.0, send_s=0.0,
    )  # fmt: skip
    dp = how["data_parallel_size"]
    tp = how["tensor_parallel_size"] * dp
    return deploy(
        model, _size(model), parse_target(f"{tp}x{device}"), profile, tp=tp, dp=dp,
        ep=tp if how["enable_expert_parallel"] else 1,
        kv_blocks=meta.get("kv_cache", {}).get("num_gpu_blocks"),
    )  # fmt: skip


def _size(model: str) -> Any:
    made = find(model).size
    assert made is not None
    return made()


def figures(truth: Served, mine: Served, rows: slice) -> dict[str, Any]:
    """Of both, mean, P50, P90, P99 in milliseconds, and the relative error."""
    told: dict[str, Any] = {}
    for name, times in METRICS.items():
        both = []
        for each in (truth, mine):
            known = times(each)[rows]
            known = known[np.isfinite(known)]
            cuts = np.percentile(known, (50, 90, 99))
            both.append([float(known.mean()), *map(float, cuts)])
        measured, predicted = ([round(each * 1e3, 2) for each in one] for one in both)
        error = [round(b / a - 1, 4) for a, b in zip(*both, strict=True)]
        told[name] = {"measured_ms": measured, "predicted_ms": predicted, "error": error}
    return told


def paced(found: Deployment, asked: Requests, truth: Served, half: int) -> tuple[float, Serving]:
    """The factor on device time that gives the first half's mean TPOT, and the run with it."""
    wanted = float(np.nanmean(tpot_s(truth)[:half]))

    def run(factor: float) -> Serving:
        cost = replace(found.cost, scale=found.cost.scale * factor)
        return serve_requests(replace(found, cost=cost), asked)

    low, high = 1 / 3, 3.0
    for _ in range(14):
        middle = (low * high) ** 0.5
        slow = float(np.nanmean(tpot_s(run(middle).served)[:half])) > wanted
        low, high = (low, middle) if slow else (middle, high)
    return low, run(low)


def kv_use(runs: Path, mine: Serving) -> dict[str, float] | None:
    """How far the share of the blocks in use is off, in points; None where it was not logged."""
    with (runs / "timeseries.csv").open(newline="", encoding="utf-8") as file:
        rows = [(float(row["t"]), float(row["kv_cache_pct"])) for row in csv.DictReader(file)]
    moments, truth = np.array(rows).T
    if not truth.any() or not mine.kv_blocks:
        return None
    at = np.searchsorted(mine.iterations.start_s, moments, side="right") - 1
    share = 100 * mine.iterations.kv_blocks_used[at] / mine.kv_blocks
    off = share - truth
    return {"mean_points": round(float(off.mean()), 2), "size": round(float(abs(off).mean()), 2)}


def run_of(folder: Path, runs: Path, model: str, device: str) -> dict[str, Any]:
    """One run beside its predictions."""
    meta = json.loads((runs / "meta.json").read_text(encoding="utf-8"))
    found = deployed(meta, model, device)
    asked, truth = recorded(folder, meta, runs)
    mine = serve_requests(found, asked).served
    half = len(asked) // 2
    told = {
        "requests": len(asked),
        "kv_blocks": {
            "measured": meta.get("kv_cache", {}).get("num_gpu_blocks"),
            "predicted": deployed({**meta, "kv_cache": {}}, model, device).memory.blocks,
        },
        "put_off": int(mine.preemptions.sum()),
        "as it is": figures(truth.served, mine, slice(None)),
    }
    factor, after = paced(found, asked, truth.served, half)
    return {
        **told,
        "device_factor": round(factor, 3),
        "half": figures(truth.served, after.served, slice(half, None)),
        "kv_use": kv_use(runs, after),
    }


def main() -> None:
    """All runs, printed and kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    told = {}
    for runs in sorted((options.folder / "bench" / "examples").glob("*/*/vllm")):
        device, model = runs.parts[-3], runs.parts[-2]
        if device not in DEVICES or model not in MODELS:
            told[f"{device} {model}"] = {"why": "not modelled, or not in the catalogue"}
            continue
        found = run_of(options.folder, runs, MODELS[model], DEVICES[device])
        told[f"{device} {model}"] = found
    print(json.dumps(told, indent=1))
    if options.write:
        RESULTS.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
