"""Requests that come to a real vLLM at once: what its front process takes to let them in.

    python validation/record_bursts.py OUT [--seconds 200]

Llama-3.1-8B with random weights, as in `record_served.py`. A run is four bursts, each of n prompts
of so many tokens sent at one moment; the first burst may build kernels, the others tell. `alike`:
all prompts but their last 16 tokens are found in the cache, so that the device has next to nothing
to do and what is left of the TTFT is the way in. `single`: one at a time. OUT/bursts.json.gz is
written after every run: requests, and the server's own means from its /metrics (`queue_s` from the
engine's queue to its first iteration, `ttft_s` from the front process's first sight of it).

Said before it was run, from 30 recorded runs in which the clock of neither side is known:

- the way in costs a + b x tokens of one processor a request, a + 1024 b of about 1 ms, b > 0;
- requests of a burst share that processor and come out together, so that in `alike` runs the first
  and the last of a burst get their first token within an iteration or two of each other;
  were they let in one after another, the first would be earlier by the way in of all others;
- a single prompt of 128 tokens takes 12 ms (13 on the machine of the first recordings).

Then, on a server without CUDA graphs (`--enforce-eager`): one and 16 in flight, 128 answer tokens.
Said before: 320 launches of 40 us each (SGLang's prompts without graphs were fitted with 100,
PyTorch's operators alone take 7 to 13), so 13 ms a token in both, where graphs give 5.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from record_served import CONFIGS, EXTRA, URL, run_of, started, stopped, told

from gpuscope.serving.client.load_test import load_test
from gpuscope.serving.requests import Requests

MODEL, EAGER = "llama-3.1-8b", "llama-3.1-8b-eager"
BURSTS = 4
ANSWER = 8


def burst(
    places: int,
    tokens: int,
    every_s: float,
    alike: bool,
    bursts: int = BURSTS,
    answer: int = ANSWER,
) -> Requests:
    """`places` prompts at once, every so many seconds."""
    count = places * bursts
    shared = np.full(count, tokens - 16) if alike else np.zeros(0, np.int64)
    return Requests(
        np.repeat(np.arange(bursts) * every_s, places),
        np.full(count, tokens),
        np.full(count, answer),
        prefix=np.zeros(count, np.int64) if alike else np.zeros(0, np.int64),
        prefix_tokens=shared,
        name=f"{places} at once",
    )


def runs() -> dict[str, Requests]:
    """All, the quick ones first."""
    made = {f"single.i{n}": burst(1, n, 0.6, False, 8) for n in (128, 512, 2048, 8192)}
    for places in (4, 16, 64):
        for tokens in (128, 1024, 4096):
            made[f"alike.{places}x{tokens}"] = burst(places, tokens, 1.0, True)
    for places in (4, 16, 64):
        for tokens in (128, 1024):
            made[f"apart.{places}x{tokens}"] = burst(places, tokens, 2.5, False)
    return made


def closed() -> dict[str, Requests]:
    """Of the server without graphs."""
    return {
        f"eager.c{places}": burst(places, 512, 0.0, False, 2, answer=128).at_concurrency(places)
        for places in (1, 16)
    }


def main() -> None:
    """All runs on one server."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=200.0, help="begin no run after")
    options = parser.parse_args()
    begun = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    logs = Path(tempfile.mkdtemp())
    result: dict[str, Any] = {"model": MODEL, "runs": {}}
    EXTRA[EAGER] = ["--enforce-eager"]
    CONFIGS[EAGER] = CONFIGS[MODEL]
    for model, asked in ((MODEL, runs()), (EAGER, closed())):
        process = started(model, logs)
        print(f"{model}: ready after {time.monotonic() - begun:.0f} s", flush=True)
        try:
            load_test(URL, prompts="ids", concurrency=8, count=16, input=256, output=16)
            for name, requests in asked.items():
                if time.monotonic() - begun > options.seconds:
                    break
                run = run_of({"requests": requests})
                result["runs"][name] = run | {"asked": requests.name}
                result[f"told {model}"] = told(logs / f"{model}.log")
                kept = gzip.compress(json.dumps(result).encode())
                (options.out / "bursts.json.gz").write_bytes(kept)
                print(f"{name}: TTFT, TPOT P10, P50, P90 {percentiles(run)} ms", flush=True)
        finally:
            stopped(process)


def percentiles(run: dict[str, Any]) -> list[list[float]]:
    """Of TTFT and TPOT."""
    sent, first, last, tokens = (
        np.array(run["requests"][name])
        for name in ("sent_ms", "first_ms", "finished_ms", "output_tokens")
    )
    return [
        np.nanpercentile(each, (10, 50, 90)).round(1).tolist()
        for each in (first - sent, (last - first) / (tokens - 1))
    ]


if __name__ == "__main__":
    main()
