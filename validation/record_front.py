"""What the process in front of a real vLLM takes, with a tokenizer, by the server's own spans.

    python validation/record_front.py OUT [--seconds 190]

One server (Llama-3.1-8B, random weights, a tokenizer whose words are its tokens) that exports its
spans to `gpuscope load --otlp`: of each request the engine's queue, prefill and decode, and the time
outside it, beside what the client sees. Rates below and near the capacity, full houses, and short
answers at a high rate, so that tokens, sequences and requests can be told apart. A run's `half` is
drawn by a hash of its name: constants may be chosen from "fit" alone. Where vLLM cannot export
spans, the same is asked without. OUT/front.json.gz is written after every run. Needs vLLM and a GPU.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
from record_served import CONFIGS, EXTRA, URL, started, stopped, told
from served_limits import words_of

from gpuscope.serving.client.load_test import load_test

MODEL, PORT = "llama-3.1-8b", 4318
LONG = {"input": 1024, "output": 256}
RUNS: dict[str, dict[str, Any]] = {
    "front.r20": LONG | {"rate": 20.0, "for_s": 14.0, "seed": 41},
    "front.c256": {"input": 128, "output": 160, "concurrency": 256, "count": 512, "seed": 42},
    "front.short": {"input": 32, "output": 8, "rate": 150.0, "for_s": 6.0, "seed": 43},
    "front.r23": LONG | {"rate": 23.0, "for_s": 14.0, "seed": 44},
    "front.c64": {"input": 128, "output": 160, "concurrency": 64, "count": 192, "seed": 45},
    "front.r10": LONG | {"rate": 10.0, "for_s": 10.0, "seed": 46},
    "front.c128": {"input": 128, "output": 160, "concurrency": 128, "count": 384, "seed": 47},
}
COLUMNS = {
    "sent_ms": "sent_s", "first_ms": "first_token_s", "finished_ms": "finished_s",
    "queue_ms": "queue_s", "prefill_ms": "prefill_s", "decode_ms": "decode_s",
    "front_ms": "front_s",
}  # fmt: skip


def half_of(name: str) -> str:
    """Whether a run may set constants."""
    return "fit" if hashlib.sha256(name.encode()).digest()[0] % 2 else "held"


def run_of(name: str, asked: dict[str, Any], spans: bool) -> dict[str, Any]:
    """One load; milliseconds from its start."""
    found = load_test(URL, prompts="ids", otlp=PORT if spans else None, **asked)
    served = found.served
    requests = {
        key: [round(float(x) * 1e3, 3) for x in getattr(served, column)]
        for key, column in COLUMNS.items()
        if len(getattr(served, column))
    }
    return {
        "half": half_of(name),
        "asked": {k: str(v) for k, v in asked.items()},
        "requests": requests
        | {
            "status": served.status.tolist(),
            "input_tokens": served.input_tokens.tolist(),
            "output_tokens": served.output_tokens.tolist(),
        },
        "client": {k: str(v) for k, v in dict(found.client).items()},
        "server": {k: str(v) for k, v in dict(found.server).items()},
        "notes": [str(note) for note in found.notes],
    }


def server(logs: Path) -> tuple[Any, bool]:
    """A process that answers, and whether it exports spans."""
    os.environ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = "http/protobuf"
    os.environ["OTEL_BSP_SCHEDULE_DELAY"] = "1000"
    EXTRA[MODEL] = ["--otlp-traces-endpoint", f"http://127.0.0.1:{PORT}/v1/traces"]
    try:
        return started(MODEL, logs, tokenizer=True), True
    except SystemExit as error:
        print(str(error)[-600:], "\nonce more, without spans", flush=True)
    del EXTRA[MODEL]
    return started(MODEL, logs, tokenizer=True), False


def main() -> None:
    """All runs, one file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=190.0, help="begin no run 25 s before")
    options = parser.parse_args()
    begun = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    logs = Path(tempfile.mkdtemp())
    words_of(logs / MODEL, CONFIGS[MODEL]["vocab_size"])
    process, spans = server(logs)
    result: dict[str, Any] = {"model": MODEL, "spans": spans, "runs": {}}
    print(f"ready after {time.monotonic() - begun:.0f} s, spans: {spans}", flush=True)
    try:
        load_test(URL, prompts="ids", concurrency=8, count=16, input=256, output=16)
        for name, asked in RUNS.items():
            if time.monotonic() - begun > options.seconds - 25:
                break
            run = result["runs"][name] = run_of(name, asked, spans)
            result["told"] = told(logs / f"{MODEL}.log")
            packed = gzip.compress(json.dumps(result).encode())
            (options.out / "front.json.gz").write_bytes(packed)
            of = run["requests"]
            means = {
                key: round(float(np.nanmean(of[key])), 1)
                for key in ("queue_ms", "prefill_ms", "front_ms")
                if key in of
            }
            ttft = np.nanmean(np.subtract(of["first_ms"], of["sent_ms"]))
            print(f"  {name} ({run['half']}): {len(of['status'])} requests, mean TTFT {ttft:.1f} ms,"
                  f" {means} {run['notes']}", flush=True)  # fmt: skip
    finally:
        stopped(process)


if __name__ == "__main__":
    main()
