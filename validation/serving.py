"""Serving points that others measured (TTFT, TPOT at a concurrency) beside what `serve` says.

    python validation/serving.py POINTS.csv [--role judge|fit] [--every N] [--write]

The rows are not part of this project: POINTS.csv has, for each, model, system, engine, tensor and
expert parallelism, lengths, concurrency, `usable` and `role`. Constants of the engines' profiles
may be fitted on the cells with role `fit` only; the tables of docs/serving-accuracy.md are of the
others. Lengths are drawn as the harness behind most rows draws them, evenly from 0.8 of the stated
length to it; four requests a place.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from gpuscope.errors import GpuscopeError
from gpuscope.hardware import parse_target
from gpuscope.program.models import find
from gpuscope.program.models.parallel.published import PUBLISHED
from gpuscope.program.models.parallel.size import Experts, TransformerSize
from gpuscope.serving.arrivals import Load, make_requests
from gpuscope.serving.engine import engine
from gpuscope.serving.lengths import Lengths
from gpuscope.serving.metrics import metrics
from gpuscope.serving.simulate import deploy, serve_requests

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "validation" / "results" / "serving.json"

_OWN = {
    # config.json of openai/gpt-oss-120b; every second block looks back 128 tokens only.
    "gpt-oss-120b": TransformerSize(
        layers=36, hidden=2880, heads=64, kv_heads=8, head=64, ffn=2880, vocabulary=201088,
        context=131072, experts=Experts(count=128, chosen=4, ffn=2880),
    ),
    # config.json of MiniMaxAI/MiniMax-M2.
    "minimax-m2.5": TransformerSize(
        layers=62, hidden=3072, heads=48, kv_heads=8, head=128, ffn=8192, vocabulary=200064,
        context=196608, experts=Experts(count=256, chosen=8, ffn=1536), head_norm=True,
    ),
}  # fmt: skip

_NAMES = {
    "deepseek-r1": "deepseek-v3", "deepseek-r1-nvfp4": "deepseek-v3", "deepseek-v3": "deepseek-v3",
    "deepseek-v3.1-nvfp4": "deepseek-v3", "qwen3-235b-a22b-fp8": "qwen3-235b-a22b",
    "llama-3.1-8b-instruct-fp8": "llama-3.1-8b", "llama-3.1-8b-instruct": "llama-3.1-8b",
    "qwen3-32b-nvfp4": "qwen3-32b", "kimi-k2.5": "kimi-k2",
}  # fmt: skip

_SYSTEMS = {"h100_sxm": "h100", "h200_sxm": "h200", "b200_sxm": "b200", "b300_sxm": "b300",
            "gb200": "gb200"}  # fmt: skip
_ENGINES = {"vllm": "vllm-0.19", "sglang": "sglang", "trtllm": "tensorrt-llm"}


@dataclass(frozen=True)
class Answer:
    """A row, measured and predicted, seconds; `why` where it is not answered."""

    cell: str
    model: str
    system: str
    engine: str
    precision: str
    tp: int
    concurrency: int
    input: int
    output: int
    ttft_s: float
    tpot_s: float
    predicted_ttft_s: float | None = None
    predicted_tpot_s: float | None = None
    why: str = ""


def answer(row: Mapping[str, str]) -> Answer:
    """One row."""
    name = row["model_path"].rpartition("/")[2].lower()
    made = Answer(
        row["cell"], name, row["system"], _ENGINES[row["backend"]],
        row["gemm_quant_mode"] or row["precision"] or "bf16", int(row["tp_size"]),
        int(row["concurrency"]), int(row["isl"]), int(row["osl"]),
        float(row["silicon_ttft_ms"]) / 1e3, float(row["silicon_tpot_ms"]) / 1e3,
    )  # fmt: skip
    try:
        ttft, tpot = predict(row, made, _size(name))
    except (GpuscopeError, LookupError) as error:
        return Answer(**{**asdict(made), "why": str(error).strip("'\"")})
    return Answer(**{**asdict(made), "predicted_ttft_s": ttft, "predicted_tpot_s": tpot})


def _size(name: str) -> TransformerSize:
    known = _NAMES.get(name, name)
    if known in _OWN:
        return _OWN[known]
    if known in PUBLISHED:
        return PUBLISHED[known]
    if name.startswith(("qwen3.5", "glm-5")):
        raise LookupError("linear or sparse attention, which is not modelled")
    size = find(known).size
    assert size is not None
    return size()


def predict(row: Mapping[str, str], made: Answer, size: TransformerSize) -> tuple[float, float]:
    """Mean TTFT and TPOT of a closed loop."""
    from dataclasses import replace

    if int(row["attention_dp_size"] or 1) > 1:
        raise LookupError("attention in data parallel, which is not modelled")
    cluster = parse_target(f"{made.tp}x{_SYSTEMS[made.system]}")
    most = max(size.context, made.input + made.output)
    found = deploy(
        made.model, replace(size, context=most), cluster, engine(made.engine),
        dtype=made.precision, tp=made.tp, ep=max(1, int(row["moe_ep_size"] or 1)),
    )  # fmt: skip
    load = Load(
        input=Lengths("uniform", int(0.8 * made.input), made.input),
        output=Lengths("uniform", max(1, int(0.8 * made.output)), made.output),
        count=max(40, 4 * made.concurrency),
        concurrency=made.concurrency,
    )
    told = metrics(serve_requests(found, make_requests(load)))
    assert told.ttft.mean_s is not None
    assert told.tpot.mean_s is not None
    return told.ttft.mean_s, told.tpot.mean_s


def off(answers: Iterable[Answer], metric: str) -> list[float]:
    """Signed relative errors."""
    return [
        getattr(a, f"predicted_{metric}") / getattr(a, metric) - 1
        for a in answers
        if getattr(a, f"predicted_{metric}") is not None
    ]


def summary(answers: list[Answer]) -> dict[str, object]:
    """Rows, those answered, and errors of both metrics."""
    told: dict[str, object] = {
        "rows": len(answers),
        "answered": sum(a.predicted_tpot_s is not None for a in answers),
    }
    for metric in ("ttft_s", "tpot_s"):
        errors = off(answers, metric)
        if errors:
            told[metric] = {
                "median_error": statistics.median(map(abs, errors)),
                "mean_error": statistics.fmean(map(abs, errors)),
                "median_signed": statistics.median(errors),
            }
    return told


def groups(answers: list[Answer]) -> dict[str, list[Answer]]:
    """By model, system and engine."""
    made = defaultdict(list)
    for each in answers:
        made[each.cell].append(each)
    return dict(sorted(made.items()))


def read(path: Path, role: str, every: int) -> list[dict[str, str]]:
    """Aggregated rows of that role that say all that matters."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["mode"] == "agg" and row["role"] == role and row["usable"] == "yes"
        ]
    return rows[::every]


def main() -> None:
    """Answer the rows, print the tables, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("points", type=Path)
    parser.add_argument("--role", default="judge", choices=("judge", "fit"))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    begun = time.monotonic()
    answers = [answer(row) for row in read(options.points, options.role, options.every)]
    print(f"{time.monotonic() - begun:.0f} s", file=sys.stderr)
    found = {
        "role": options.role,
        "all": summary(answers),
        "cells": {cell: summary(some) for cell, some in groups(answers).items()},
        "engines": {
            name: summary([a for a in answers if a.engine == name]) for name in _ENGINES.values()
        },
        "unanswered": dict(Counter(a.why for a in answers if a.why).most_common()),
    }
    print(json.dumps(found, indent=1))
    if options.write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
