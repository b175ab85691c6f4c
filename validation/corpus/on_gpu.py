"""Over fifty programs of the corpus for real on a CUDA device, and beside what was predicted.

On a machine with a GPU, PyTorch and, where they are to run, transformers (gpuscope is not needed):

    python validation/corpus/on_gpu.py rows.jsonl [--seconds 540] [--only TEXT]

Each program runs in a process of its own under a time limit; its line is written at once, and what
has a line is not run again. Then, anywhere, without a GPU:

    python validation/corpus/on_gpu.py rows.jsonl --compare [--on h200] [--json FILE]

A line: kernels, copies and fills of one step as `torch.profiler` (CUPTI) saw them; the peak of
`torch.cuda.max_memory_allocated` over one step; the median seconds of a step.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import select
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from validation.corpus import one  # noqa: E402
from validation.corpus.case import Case  # noqa: E402

Row = dict[str, Any]

LIMIT_S = 60.0
WARM, TIMED, ROUNDS = 3, 5, 3
LAUNCHES_WITHIN, PEAK_WITHIN = 0.05, 0.03

ARCHITECTURES = (
    "causal/train: llama gpt2 mistral qwen2 qwen3 gemma2 phi olmo2 opt gpt_neox bloom falcon mamba"
    " mixtral stablelm smollm3",
    "causal/generate: llama gpt2 qwen3 gemma2 opt mamba",
    "masked/train: bert roberta distilbert albert electra deberta-v2 modernbert",
    "seq2seq/train: bart t5 pegasus",
    "seq2seq/generate: bart t5",
    "picture/train: vit resnet convnext deit",
)
"""Of transformers: those that people know."""

LARGER = {"heads": 8, "key value heads": 4, "head": 64, "rank": 64, "inner": 2048, "width": 512}
BATCH, LENGTH = 8, 128


def chosen() -> list[Case]:
    """The programs, those of transformers larger than in the corpus, where it is installed."""
    from validation.corpus import shrink
    from validation.corpus.families import classics

    found = [case for case in classics.cases() if case.gpu]
    if importlib.util.find_spec("transformers") is None:
        return found
    from validation.corpus.families import transformers_models as family

    shrink.SIZES.update(LARGER)
    family.BATCH, family.LENGTH = BATCH, LENGTH
    known = {case.name: case for case in family.cases()}
    for line in ARCHITECTURES:
        way, _, kinds = line.partition(": ")
        names = (f"transformers/{kind}/{way}" for kind in kinds.split())
        found += [known[name] for name in names if name in known]
    return found


# -- on the device ------------------------------------------------------------------------------


def measured(case: Case) -> Row:
    """One program's figures on this machine's device."""
    import torch

    torch.manual_seed(0)
    step = case.build("cuda")
    for _ in range(WARM):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    row: Row = {"peak_bytes": torch.cuda.max_memory_allocated()}
    row["step_s"] = statistics.median(_timed(step) for _ in range(ROUNDS))
    return row | _launches(step)


def _timed(step: Callable[[], object]) -> float:
    import torch

    began = time.perf_counter()
    for _ in range(TIMED):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / TIMED


def _launches(step: Callable[[], object]) -> Row:
    """Device work of one step, from the trace that the profiler writes."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        step()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    kinds = [event.get("cat") for event in events]
    return {
        "launches": kinds.count("kernel"),
        "copies": kinds.count("gpu_memcpy"),
        "fills": kinds.count("gpu_memset"),
    }


def in_child(case: Case, limit_s: float) -> Row:
    """The figures, or why there are none."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            row = measured(case)
        except BaseException as error:
            row = {"failed": f"{type(error).__name__}: {error}"[:400]}
            row["where"] = traceback.format_exc().splitlines()[-4:]
        os.write(write, json.dumps(one.without_machine(row)).encode()[:60000])
        os._exit(0)
    os.close(write)
    ready, _, _ = select.select([read], [], [], limit_s)
    text = os.read(read, 65536) if ready else b""
    os.close(read)
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if text:
        return dict(json.loads(text))
    return {"failed": f"no answer within {limit_s:.0f} s" if not ready else f"ended: {status}"}


def run(file: Path, only: str, seconds: float) -> None:
    """A line for each program that has none yet."""
    import torch  # once, before forking; no call that wakes the driver

    began, done = time.perf_counter(), set(lines(file))
    file.parent.mkdir(parents=True, exist_ok=True)
    cases = [c for c in chosen() if only in c.name and c.name not in done]
    if any(case.needs for case in cases):
        import transformers  # noqa: F401
    versions = {"torch": torch.__version__, "device": _device_name()}
    for n, case in enumerate(cases):
        if time.perf_counter() - began > seconds:
            print(f"{len(cases) - n} left", flush=True)
            return
        row = {"name": case.name} | in_child(case, LIMIT_S) | versions
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
        print(json.dumps(row)[:200], flush=True)


def _device_name() -> str:
    """As the driver's own tool says it: asking torch would spoil the forks."""
    import subprocess

    ask = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        return subprocess.run(ask, capture_output=True, text=True, timeout=20).stdout.split("\n")[0]
    except (OSError, subprocess.TimeoutExpired):
        return ""


def lines(file: Path) -> dict[str, Row]:
    """The rows of a recording by name."""
    if not file.exists():
        return {}
    return {row["name"]: row for row in map(json.loads, file.read_text("utf-8").splitlines())}


# -- beside what is predicted -------------------------------------------------------------------


def compare(file: Path, on: str) -> list[Row]:
    """Every measured program with its prediction."""
    cases, found = {case.name: case for case in chosen()}, []
    one.TARGET = on
    for name, row in lines(file).items():
        if "failed" in row or name not in cases:
            continue
        guess = one.in_child(cases[name], real=False)
        made = {"name": name, "measured": row, "predicted": guess}
        if guess["predicted"]:
            made["launches_off"] = guess["launches"] / max(row["launches"], 1) - 1
            made["peak_off"] = guess["peak_bytes"] / row["peak_bytes"] - 1
            made["step_off"] = guess["step_s"] / row["step_s"] - 1
        found.append(made)
    return found


def told(rows: list[Row]) -> str:
    """A Markdown table, and how many are within the goals."""
    text = [
        "| program | launches, measured | predicted | | peak, MB | predicted | | step, ms"
        " | predicted | |",
        "|---|" + "---:|" * 9,
    ]
    good = [row for row in rows if "peak_off" in row]
    for row in good:
        real, guess = row["measured"], row["predicted"]
        text.append(
            f"| `{row['name']}` | {real['launches']:,} | {guess['launches']:,}"
            f" | {row['launches_off']:+.1%} | {real['peak_bytes'] / 1e6:.1f}"
            f" | {guess['peak_bytes'] / 1e6:.1f} | {row['peak_off']:+.1%}"
            f" | {real['step_s'] * 1e3:.2f} | {guess['step_s'] * 1e3:.2f}"
            f" | {row['step_off']:+.0%} |"
        )
    sums = totals(rows)
    text += [
        "",
        f"{len(rows)} programs measured, {len(good)} predicted; launches within 5 %:"
        f" {sums['launches']}, peak memory within 3 %: {sums['peaks']}.",
    ]
    return "\n".join(text)


def totals(rows: list[Row]) -> dict[str, float]:
    """Programs measured and predicted, how many are within the goals, and the median of steps."""
    good = [row for row in rows if "peak_off" in row]
    return {
        "measured": len(rows),
        "predicted": len(good),
        "launches": sum(abs(row["launches_off"]) <= LAUNCHES_WITHIN for row in good),
        "peaks": sum(abs(row["peak_off"]) <= PEAK_WITHIN for row in good),
        "step": statistics.median(row["step_off"] for row in good),
    }


def main() -> int:
    """Measure, or compare what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=540.0, help="start none after so long")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--on", default="h200")
    parser.add_argument("--json", type=Path, help="keep the comparison here")
    args = parser.parse_args()
    if not args.compare:
        run(args.rows, args.only, args.seconds)
        return 0
    rows = compare(args.rows, args.on)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    print(told(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
