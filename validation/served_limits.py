"""The highest rate within limits, looked for on a real vLLM, and that server's two load testers.

    python validation/served_limits.py predict                # no GPU: results/served_limits.json
    python validation/served_limits.py measure OUT [--seconds 510]
    python validation/served_limits.py judge OUT

`measure` starts `vllm serve` with random weights and a tokenizer whose words are its tokens (so
that `vllm bench serve` can ask the same server). For each pair of limits it asks at the rate that
was predicted, then 8 % more while 99 % of the requests keep the limits and 8 % less while they do
not, until one rate keeps them and the next does not. Beside that, on the first server: the question
that `plan_served.py` was planned for and a full house, and the same closed loop by `gpuscope load`
and by `vllm bench serve`, in turn. Every request is kept, as in `record_served.py`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
from record_served import CONFIGS, CONTEXT, EXTRA, URL, run_of, started, stopped, told

from gpuscope.serving.client.load_test import load_test

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "validation" / "results" / "served_limits.json"
WINDOW_S, STEP, MOST_TRIES, SHARE = 16.0, 1.08, 3, 0.99

ASKED: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": {
        "lengths": {"input": "1024", "output": "256"},
        "limits": ["ttft<500ms,tpot<30ms", "ttft<200ms,tpot<15ms"],
    },
    "qwen3-8b": {
        "lengths": {"input": "lognormal:600,0.5", "output": "lognormal:200,0.5"},
        "limits": ["ttft<300ms,tpot<25ms", "ttft<150ms,tpot<12ms"],
    },
}
PLANNED = ["--tensor-parallel-size", "1", "--max-num-batched-tokens", "8192",
           "--max-num-seqs", "1024"]  # fmt: skip
"""What `gpuscope plan llama-3.1-8b --task serve --on h200 --for vllm` writes behind the model."""
FIRST = "llama-3.1-8b"
BESIDE: dict[str, dict[str, Any]] = {
    "plan.r10": {"input": 1000, "output": 200, "rate": 10.0, "count": 200, "seed": 0},
    "plan.full": {"input": 1000, "output": 200, "concurrency": 256, "count": 1024, "seed": 1},
}
BENCH = {"input": 512, "output": 128, "concurrency": 16, "count": 160, "seed": 5}


def asked_at(model: str, rate: float) -> dict[str, Any]:
    """What `load_test` is asked at a rate."""
    count = max(30, round(rate * WINDOW_S))
    return ASKED[model]["lengths"] | {"rate": rate, "count": count, "seed": 31}


def requests_of(asked: dict[str, Any]) -> Any:
    """The same requests for the simulator."""
    from gpuscope.program.lengths import parse_lengths
    from gpuscope.serving.arrivals import Load, make_requests

    return make_requests(
        Load(
            input=parse_lengths(str(asked["input"])), output=parse_lengths(str(asked["output"])),
            count=int(asked["count"]), rate_per_s=float(asked.get("rate", 0.0)),
            concurrency=int(asked.get("concurrency", 0)), seed=int(asked["seed"]),
        )
    )  # fmt: skip


def predict() -> None:
    """The highest rates with their intervals, and the runs beside."""
    from gpuscope.hardware import parse_target
    from gpuscope.program.models import find
    from gpuscope.serving.engine import engine
    from gpuscope.serving.highest import highest_rate
    from gpuscope.serving.simulate import deploy, serve_requests
    from gpuscope.serving.slo import parse_slo

    made: dict[str, Any] = {}
    for model, asked in ASKED.items():
        size = find(model).size
        assert size is not None
        found = deploy(model, replace(size(), context=CONTEXT), parse_target("h200"),
                       engine("vllm"))  # fmt: skip
        rates = {}
        for limits in asked["limits"]:
            best = highest_rate(
                found, lambda rate, m=model: requests_of(asked_at(m, rate)), parse_slo(limits)
            )
            rates[limits] = {
                "rate": best.rate_per_s,
                "low": best.low_per_s,
                "high": best.high_per_s,
            }
        made[model] = {"highest": rates, "runs": {}}
        if model == FIRST:
            for name, each in {**BESIDE, "bench": BENCH}.items():
                served = serve_requests(found, requests_of(each)).served
                made[model]["runs"][name] = figures(
                    served.intended_s, served.first_token_s, served.finished_s,
                    served.output_tokens,
                )  # fmt: skip
    RESULTS.write_text(json.dumps({"predicted": made}, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(made, indent=1))


def figures(sent: Any, first: Any, finished: Any, output: Any) -> dict[str, float]:
    """Seconds, and requests a second."""
    sent, first, finished = (np.asarray(each, float) for each in (sent, first, finished))
    ttft, tpot = first - sent, (finished - first) / (np.asarray(output) - 1)
    found = {
        "ttft_mean_s": np.nanmean(ttft), "ttft_p50_s": np.nanmedian(ttft),
        "ttft_p90_s": np.nanpercentile(ttft, 90), "ttft_p99_s": np.nanpercentile(ttft, 99),
        "tpot_mean_s": np.nanmean(tpot), "tpot_p90_s": np.nanpercentile(tpot, 90),
        "per_s": len(sent) / (np.nanmax(finished) - sent.min()),
    }  # fmt: skip
    return {name: float(value) for name, value in found.items()}


def seconds_of(run: dict[str, Any]) -> tuple[Any, ...]:
    """A recorded run's times and answers."""
    asked = run["requests"]
    times = [
        np.asarray(asked[name], float) / 1e3 for name in ("sent_ms", "first_ms", "finished_ms")
    ]
    return (*times, np.asarray(asked["output_tokens"]))


def kept(run: dict[str, Any], limits: str) -> float:
    """Share of a run's requests that kept every limit; what failed kept none."""
    from gpuscope.serving.slo import parse_slo

    sent, first, finished, output = seconds_of(run)
    found = {"ttft": first - sent, "tpot": (finished - first) / (output - 1),
             "e2e": finished - sent}  # fmt: skip
    every = [found[each.metric] <= each.seconds for each in parse_slo(limits)]
    return float(np.logical_and.reduce(every).mean())


def searched(model: str, limits: str, predicted: float, runs: dict[str, Any], keep: Any) -> None:
    """Ask at rates around the predicted one until one keeps the limits and the next does not."""
    rate, held = round(predicted, 2), None
    for _ in range(MOST_TRIES):
        name = f"rate.{rate:g}"
        if name not in runs:
            runs[name] = run_of(asked_at(model, rate))
            keep()
        holds = kept(runs[name], limits) >= SHARE
        print(f"  {limits} at {rate:g}/s: {kept(runs[name], limits):.1%}", flush=True)
        if held is not None and holds != held:
            return
        held, rate = holds, round(rate * STEP if holds else rate / STEP, 2)


def bench(home: Path, model: str) -> dict[str, Any]:
    """`vllm bench serve`, the same closed loop; its own figures."""
    words = [
        sys.executable, "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "openai",
        "--base-url", URL, "--model", model, "--tokenizer", str(home), "--dataset-name", "random",
        "--random-input-len", BENCH["input"], "--random-output-len", BENCH["output"],
        "--num-prompts", BENCH["count"], "--max-concurrency", BENCH["concurrency"],
        "--request-rate", "inf", "--ignore-eos", "--save-result", "--result-dir", str(home),
        "--result-filename", "bench.json", "--disable-tqdm",
    ]  # fmt: skip
    ended = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=90,
        env=os.environ | {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    if ended.returncode:
        return {"failed": ended.stderr[-1500:]}
    found = json.loads((home / "bench.json").read_text())
    return {name: value for name, value in found.items() if isinstance(value, int | float | str)}


def words_of(home: Path, count: int) -> None:
    """A tokenizer whose tokens are words: t0, t1, ..."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    home.mkdir(parents=True, exist_ok=True)
    made = Tokenizer(WordLevel({f"t{at}": at for at in range(count)}, unk_token="t0"))
    made.pre_tokenizer = WhitespaceSplit()
    made.save(str(home / "tokenizer.json"))
    told_of = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "t0", "eos_token": "t2"}
    (home / "tokenizer_config.json").write_text(json.dumps(told_of))


def measure(out: Path, seconds: float) -> None:
    """All, one file a model."""
    begun = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    highest = json.loads(RESULTS.read_text("utf-8"))["predicted"]
    EXTRA[FIRST] = PLANNED
    logs = Path(tempfile.mkdtemp())
    for model in ASKED:
        if time.monotonic() - begun > seconds - 180:
            break
        words_of(logs / model, CONFIGS[model]["vocab_size"])
        at = time.monotonic()
        try:
            process = started(model, logs, tokenizer=True)
        except SystemExit as error:
            print(error, "\nonce more, without a tokenizer", flush=True)
            process = started(model, logs)
        result: dict[str, Any] = {"model": model, "start_s": time.monotonic() - at, "runs": {}}
        print(f"{model}: ready after {result['start_s']:.0f} s", flush=True)

        def keep(model: str = model, result: dict[str, Any] = result) -> None:
            result["told"] = told(logs / f"{model}.log")
            (out / f"{model}.json.gz").write_bytes(gzip.compress(json.dumps(result).encode()))

        try:
            load_test(URL, prompts="ids", concurrency=8, count=16, input=256, output=16)
            for limits, best in highest[model]["highest"].items():
                if time.monotonic() - begun < seconds:
                    searched(model, limits, best["rate"], result["runs"], keep)
            if model == FIRST:
                beside(result, keep, logs / model)
            keep()
        finally:
            stopped(process)


def beside(result: dict[str, Any], keep: Any, home: Path) -> None:
    """The planned question, a full house, and the two testers in turn."""
    for name, asked in BESIDE.items():
        result["runs"][name] = run_of(asked)
        keep()
        print(f"  {name}: {figures(*seconds_of(result['runs'][name]))}", flush=True)
    for turn in (1, 2):
        result["runs"][f"bench.{turn}"] = run_of(BENCH)
        result[f"vllm bench {turn}"] = bench(home, result["model"])
        keep()
        print(f"  load: {figures(*seconds_of(result['runs'][f'bench.{turn}']))}\n"
              f"  vllm bench: {result[f'vllm bench {turn}']}", flush=True)  # fmt: skip


def judge(out: Path) -> None:
    """Measured beside predicted, into the results."""
    found = json.loads(RESULTS.read_text("utf-8"))
    found["measured"] = {}
    for model in ASKED:
        recorded = json.loads(gzip.decompress((out / f"{model}.json.gz").read_bytes()))
        rates = {
            limits: {
                name[5:]: round(kept(run, limits), 4)
                for name, run in recorded["runs"].items() if name.startswith("rate.")
            }
            for limits in ASKED[model]["limits"]
        }  # fmt: skip
        found["measured"][model] = {
            "kept": rates,
            "runs": {name: figures(*seconds_of(run)) for name, run in recorded["runs"].items()},
            "vllm bench": {n: v for n, v in recorded.items() if n.startswith("vllm bench")},
        }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found["measured"], indent=1))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("predict", "measure", "judge"))
    parser.add_argument("out", type=Path, nargs="?", default=Path())
    parser.add_argument("--seconds", type=float, default=510.0, help="begin no search after")
    given = parser.parse_args()
    if given.what == "predict":
        predict()
    elif given.what == "measure":
        measure(given.out.resolve(), given.seconds)
    else:
        judge(given.out.resolve())


if __name__ == "__main__":
    main()
