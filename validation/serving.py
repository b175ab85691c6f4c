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
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gpuscope.errors import GpuscopeError
from gpuscope.hardware import parse_target
from gpuscope.program.models import find
from gpuscope.program.models.parallel.published import PUBLISHED
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.serving.arrivals import Load, make_requests
from gpuscope.serving.engine import Engine, engine
from gpuscope.program.lengths import Lengths
from gpuscope.serving.metrics import metrics
from gpuscope.serving.simulate import deploy, serve_requests

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "validation" / "results" / "serving.json"
FLAGS = tomllib.loads((ROOT / "validation" / "serving_flags.toml").read_text("utf-8"))["flags"]
"""What the servers were started with, where the harness says so."""

STREAMING = 0.4
"""Of the profile's, what the one process that streams tokens takes on the harness's hosts. The
profile's 75e-6 for a lone token are of one recorded host, and let 13,300 tokens a second through;
servers of `fit` cells gave up to 16,900, and the errors of TTFT in their rows over 6,500 tokens a
second fall until here (30e-6)."""

_NAMES = {
    "deepseek-r1": "deepseek-v3", "deepseek-r1-nvfp4": "deepseek-v3", "deepseek-v3": "deepseek-v3",
    "deepseek-v3.1-nvfp4": "deepseek-v3", "qwen3-235b-a22b-fp8": "qwen3-235b-a22b",
    "llama-3.1-8b-instruct-fp8": "llama-3.1-8b", "llama-3.1-8b-instruct": "llama-3.1-8b",
    "qwen3-32b-nvfp4": "qwen3-32b", "kimi-k2.5": "kimi-k2", "minimax-m2.5": "minimax-m2",
}  # fmt: skip

_SYSTEMS = {"h100_sxm": "h100", "h200_sxm": "h200", "b200_sxm": "b200", "b300_sxm": "b300",
            "gb200": "gb200"}  # fmt: skip
_ORIGIN = "aic-auto-gap-analysis"
"""Harness whose prompts and answers have one length each."""

_SET = ("utilization", "max_tokens", "max_sequences", "chunked", "prefix_cache", "overlapped",
        "graph_sizes")  # fmt: skip
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm"}


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
        row["cell"], name, row["system"], _ENGINES[row["backend"]], precision(row), split(row).tp,
        int(row["concurrency"]), int(row["isl"]), int(row["osl"]),
        float(row["silicon_ttft_ms"]) / 1e3, float(row["silicon_tpot_ms"]) / 1e3,
    )  # fmt: skip
    try:
        ttft, tpot = predict(row, made, model_size(name))
    except (GpuscopeError, LookupError) as error:
        return Answer(**{**asdict(made), "why": str(error).strip("'\"")})
    return Answer(**{**asdict(made), "predicted_ttft_s": ttft, "predicted_tpot_s": tpot})


def precision(row: Mapping[str, str]) -> str:
    """Of the weights. gpt-oss is published in MXFP4 alone, where the rows say NVFP4."""
    if "gpt-oss" in row["model_path"].lower():
        return "mxfp4"
    kind = row["gemm_quant_mode"] or row["precision"] or "bf16"
    if kind == "fp8" and "llama" not in row["model_path"].lower():
        return "fp8_block"  # as those models are published in 8 bits
    return kind


@dataclass(frozen=True)
class Split:
    """Devices of a row, and what they share."""

    tp: int
    ep: int
    attention_dp: int


def split(row: Mapping[str, str]) -> Split:
    """How a row's devices are used.

    Where experts have equal parts by tensor and by expert, the column of `tp` is their product:
    rows whose name says tp8, ep8 have 64 there and 8 x 8 beside it, and the same measurement stands
    in the file a second time with 8. Those devices are 8.

    """
    tp, ep = int(row["tp_size"]), max(1, int(row["moe_ep_size"] or 1))
    dp, moe_tp = max(1, int(row["attention_dp_size"] or 1)), int(row["moe_tp_size"] or 1)
    if ep > 1 and moe_tp == ep and tp * dp == ep * ep:
        return Split(ep, ep, ep if dp > 1 else 1)
    return Split(tp * dp, ep, dp)


def apart(rows: Iterable[Mapping[str, str]]) -> Callable[[Mapping[str, str]], bool]:
    """Whether an aggregated row's measurement stands in the file as disaggregated, too.

    The same devices, places and lengths, and a TPOT within 10 %: so on GB200, where TPOT is within
    0.4 % in the median, and where no engine can share one model's heads among so many devices.
    """
    known: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        if row["mode"] == "disagg":
            known[_asked(row)].append(float(row["silicon_tpot_ms"]))

    def found(row: Mapping[str, str]) -> bool:
        tpot = float(row["silicon_tpot_ms"])
        return any(abs(tpot / each - 1) < 0.1 for each in known.get(_asked(row), ()))

    return found


def _asked(row: Mapping[str, str]) -> tuple[str, ...]:
    devices = row["tp_size"] or row["decode_tp_size"]
    return row["cell"], row["precision"], row["isl"], row["osl"], row["concurrency"], devices


def model_size(name: str) -> TransformerSize:
    """The model of that name."""
    known = _NAMES.get(name, name)
    if known in PUBLISHED:
        return PUBLISHED[known]
    size = find(known).size
    assert size is not None
    return size()


def flags(row: Mapping[str, str]) -> dict[str, Any]:
    """What its server was started with, as far as it is published."""
    name = row["model_path"].rpartition("/")[2].lower()
    for each in FLAGS:
        if each.get("origin", "") != (_ORIGIN if _ORIGIN in row["silicon_data_source"] else ""):
            continue
        versions = each.get("versions")
        if versions and row["backend_version"] not in versions:
            continue
        if each["engine"] == row["backend"] and name in each.get("models", (name,)):
            systems, kinds = each.get("systems"), each.get("precisions")
            if (not systems or row["system"] in systems) and (
                not kinds or (row["gemm_quant_mode"] or row["precision"]) in kinds
            ):
                return dict(each)
    return {}


def engine_of(row: Mapping[str, str]) -> tuple[Engine, float]:
    """The engine as it was started, and bytes of a number of keys and values."""
    if row["apart"]:
        raise LookupError("the same measurement stands there as disaggregated, without its workers")
    said, places = flags(row), int(row["concurrency"])
    found = engine(_profile(row))
    found = replace(found, token_s=STREAMING * found.token_s, send_s=STREAMING * found.send_s)
    asked = int(row["isl"])
    words = {
        "context": asked + int(row["osl"]) + 256,
        "prompt": max(8192, places + asked + 64),
        "two prompts": max(2048, 2 * asked),
        "concurrency": places,
        "128 or more": max(128, places),
        "prompt and 1500": asked + 1500,
        "all, prompt and 1500": places + asked + 1500,
        "every": tuple(range(1, places + 1)),
    }
    for name in _SET:
        if name in said:
            found = replace(found, **{name: words.get(said[name], said[name])})
    found = found.with_policy(said.get("policy"))
    if "look_steps" in said:
        found = replace(found, look_steps=said["look_steps"][places >= 16])
    return found, float(said.get("cache", 2))


def _profile(row: Mapping[str, str]) -> str:
    """The engine's name, of the version that was run."""
    if row["backend"] != "vllm":
        return _ENGINES[row["backend"]]
    version = row["backend_version"].split(".")
    minor = int(version[1]) if version[0] == "0" else 99  # built from a commit: a new one
    return "vllm-0.13" if minor < 14 else "vllm-0.19" if minor < 21 else "vllm"


def predict(row: Mapping[str, str], made: Answer, size: TransformerSize) -> tuple[float, float]:
    """Mean TTFT and TPOT of a closed loop, ten requests a place, as the harness asks."""
    parts = split(row)
    cluster = parse_target(f"{parts.tp}x{_SYSTEMS[made.system]}")
    most = max(size.context, made.input + made.output)
    started, cache_bytes = engine_of(row)
    found = deploy(
        made.model, replace(size, context=most), cluster, started,
        dtype=made.precision, tp=parts.tp, ep=parts.ep, dp=parts.attention_dp,
        cache_bytes=cache_bytes,
    )  # fmt: skip
    least = 1.0 if _ORIGIN in row["silicon_data_source"] else 0.8
    load = Load(
        input=Lengths("uniform", int(least * made.input), made.input),
        output=Lengths("uniform", max(1, int(least * made.output)), made.output),
        count=max(40, 10 * made.concurrency),
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
        everything = list(csv.DictReader(file))
    elsewhere = apart(everything)
    rows = [
        {**row, "apart": "yes" if elsewhere(row) else ""}
        for row in everything
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
