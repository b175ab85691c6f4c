"""Loads a real vLLM on this machine's GPU and keeps every request: truth for `gpuscope serve`.

    python validation/record_served.py OUT [MODEL ...] [--seconds 550]

For each model a folder with its configuration is made, `vllm serve` is started with random weights
(speed does not depend on them), and `gpuscope.load_test` asks, in this order: as much as it takes
(`cap`), then 60, 80 and 95 % of the requests a second that this gave (`r60`, `r80`, `r95`),
few long answers, long prompts, prompts that begin alike. OUT/<model>.json.gz is written after every
run, so that a stop loses one; models that have their file are left out. Needs vLLM beside gpuscope.
`validation/served_requests.py` serves the same requests by the simulator.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np

from gpuscope.serving.client.load_test import load_test

PORT = 8123
URL = f"http://127.0.0.1:{PORT}"
START_S = 170.0
CONTEXT = 16384

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
    "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16",
}  # fmt: skip
"""Meta's config.json of Llama 3.1 8B, but for its scaled positions, which cost nothing."""

CONFIGS: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": LLAMA,
    "qwen3-8b": LLAMA | {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "intermediate_size": 12288,
        "num_hidden_layers": 36, "vocab_size": 151936, "max_position_embeddings": 40960,
        "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
    },
    "mistral-nemo-12b": LLAMA | {
        "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 5120,
        "num_hidden_layers": 40, "vocab_size": 131072, "rope_theta": 1000000.0,
    },
}  # fmt: skip
CONFIGS["llama-3.1-8b-fp8"] = LLAMA
EXTRA = {"llama-3.1-8b-fp8": ["--quantization", "fp8"]}

CHAT = {"input": "lognormal:400,0.8", "output": "lognormal:150,0.7"}
FIXED: dict[str, dict[str, Any]] = {
    "cap": CHAT | {"concurrency": 128, "count": 384, "seed": 21},
    "r60": CHAT | {"rate": 0.60, "for_s": 16.0, "seed": 22},
    "r80": CHAT | {"rate": 0.80, "for_s": 16.0, "seed": 23},
    "r95": CHAT | {"rate": 0.95, "for_s": 16.0, "seed": 24},
    "dec.c32": {"concurrency": 32, "count": 64, "input": 128, "output": 400, "seed": 25},
    "pre.c2": {"concurrency": 2, "count": 16, "input": 4096, "output": 16, "seed": 26},
    "alike.c32": {
        "concurrency": 32, "count": 128, "input": "512..1024", "output": 64,
        "shared": 2048, "groups": 4, "seed": 27,
    },
}  # fmt: skip
"""Runs; a `rate` is a share of what `cap` gave."""


def started(model: str, folder: Path, tokenizer: bool = False) -> subprocess.Popen[bytes]:
    """The server's process, ready to answer; its log lies beside its configuration.

    With `tokenizer`, one lies beside the configuration, and the server uses it.
    """
    home = folder / model
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.json").write_text(json.dumps(CONFIGS[model]))
    log = (folder / f"{model}.log").open("wb")
    process = subprocess.Popen(
        [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(home),
            "--served-model-name", model, "--load-format", "dummy",
            *(() if tokenizer else ("--skip-tokenizer-init",)),
            "--max-model-len", str(CONTEXT), "--port", str(PORT), *EXTRA.get(model, []),
        ],
        stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        env=os.environ | {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
                          "VLLM_USE_FLASHINFER_SAMPLER": "0"},
    )  # fmt: skip
    begun = time.monotonic()
    while time.monotonic() - begun < START_S:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"{URL}/health", timeout=2)
            return process
        except OSError:
            time.sleep(0.5)
    stopped(process)
    tail = (folder / f"{model}.log").read_text(errors="replace")[-3000:]
    raise SystemExit(f"{model}: the server did not start.\n{tail}")


def stopped(process: subprocess.Popen[bytes]) -> None:
    """End the server and its workers."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGKILL)


def run_of(asked: dict[str, Any]) -> dict[str, Any]:
    """One load: what was asked, and each request, milliseconds from the start."""
    found = load_test(URL, prompts="ids", **asked)
    served = found.served

    def ms(column: Any) -> list[float]:
        return [round(float(x) * 1e3, 2) for x in column]

    return {
        "asked": {k: str(v) for k, v in asked.items()},
        "requests": {
            "sent_ms": ms(served.sent_s), "first_ms": ms(served.first_token_s),
            "finished_ms": ms(served.finished_s), "status": served.status.tolist(),
            "input_tokens": served.input_tokens.tolist(),
            "output_tokens": served.output_tokens.tolist(),
            "gap_p50_ms": ms(served.gap_p50_s), "gap_max_ms": ms(served.gap_max_s),
        },
        "client": {k: str(v) for k, v in dict(found.client).items()},
        "server": {k: str(v) for k, v in dict(found.server).items()},
    }  # fmt: skip


def told(log: Path) -> list[str]:
    """Lines of the server's log that say its memory and its settings."""
    words = ("GPU KV cache size", "Available KV cache", "Model loading took", "torch.compile",
             "Graph capturing", "attention backend", "Chunked prefill", "sync scheduling",
             "Maximum concurrency", "AttentionBackend", "num_gpu_blocks")  # fmt: skip
    lines = log.read_text(errors="replace").splitlines()
    return [line[-300:] for line in lines if any(w in line for w in words)][:40]


def main() -> None:
    """All models' runs, one file a model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("models", nargs="*", default=list(CONFIGS))
    parser.add_argument("--seconds", type=float, default=550.0, help="begin no run after")
    options = parser.parse_args()
    begun = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    logs = Path(tempfile.mkdtemp())
    for model in options.models:
        kept = options.out / f"{model}.json.gz"
        if kept.exists() or time.monotonic() - begun > options.seconds - 80:
            continue
        at = time.monotonic()
        process = started(model, logs)
        result: dict[str, Any] = {"model": model, "start_s": time.monotonic() - at, "runs": {}}
        print(f"{model}: ready after {result['start_s']:.0f} s", flush=True)
        try:
            load_test(URL, prompts="ids", concurrency=8, count=16, input=256, output=16)
            capacity = 0.0
            for name, asked in FIXED.items():
                if time.monotonic() - begun > options.seconds:
                    break
                if "rate" in asked:
                    asked = asked | {"rate": round(asked["rate"] * capacity, 3)}
                run = run_of(asked)
                result["runs"][name] = run
                done = np.asarray(run["requests"]["finished_ms"])
                if name == "cap":
                    capacity = len(done) / (float(np.nanmax(done)) / 1e3)
                result["told"] = told(logs / f"{model}.log")
                kept.write_bytes(gzip.compress(json.dumps(result).encode()))
                first = np.asarray(run["requests"]["first_ms"])
                waited = np.nanmedian(first - np.asarray(run["requests"]["sent_ms"]))
                print(f"  {name}: {len(done)} requests, TTFT P50 {waited:.1f} ms, "
                      f"{np.nanmax(done) / 1e3:.1f} s", flush=True)  # fmt: skip
        finally:
            stopped(process)


if __name__ == "__main__":
    main()
