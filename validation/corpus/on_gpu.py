"""Programs of the corpus for real on a CUDA device: kernels, peak memory, step time.

On a machine with a GPU, PyTorch and, where they are to run, transformers (gpuscope is not needed):

    python validation/corpus/on_gpu.py rows.jsonl [--which first|second] [--seconds 270]

One process takes program after program; a line is written at once, what has a line is not run
again, and a program that takes the process with it is a line that says so. Then, anywhere:
`python -m validation.corpus.beside rows.jsonl`.

A line: kernels, copies and fills of one step as `torch.profiler` (CUPTI) saw them, the same by
operator with the kernels' names; the device's busy seconds in that step; the peak of
`torch.cuda.max_memory_allocated` over one step; the median seconds of a step, and those after which
the host had issued it.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import importlib.util
import json
import os
import select
import signal
import statistics
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from validation.corpus import one  # noqa: E402
from validation.corpus.case import Case  # noqa: E402

Row = dict[str, Any]

PROGRAMS = tomllib.loads((HERE / "on_gpu.toml").read_text("utf-8"))
LIMIT_S = 60.0
WARM, TIMED, ROUNDS = 3, 5, 3
NAME_LENGTH = 160
WORK = {"kernel": "launches", "gpu_memcpy": "copies", "gpu_memset": "fills"}


def chosen(which: str) -> list[Case]:
    """The programs of a list, those of transformers larger than in the corpus, where installed."""
    from validation.corpus import shrink
    from validation.corpus.families import (
        classics,
        policies,
        recommenders,
        scientific,
        transformers_models,
    )

    families = [classics, policies, recommenders, scientific]
    if importlib.util.find_spec("transformers"):
        larger = dict(PROGRAMS["larger"])
        transformers_models.BATCH, transformers_models.LENGTH = (
            larger.pop("batch"),
            larger.pop("length"),
        )
        shrink.SIZES.update(larger)
        families.append(transformers_models)
    known = {case.name: case for family in families for case in family.cases()}
    wanted = (f"{family}/{name}" for family, names in PROGRAMS[which].items() for name in names)
    return [known[name] for name in wanted if name in known]


# -- one program on the device --------------------------------------------------------------------


def measured(case: Case, device: str = "cuda") -> Row:
    """One program's figures on this machine's device."""
    import torch

    row: Row = {"held_bytes": _cleared()}
    torch.manual_seed(0)
    step = case.build(device)
    for _ in range(WARM):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    row["peak_bytes"] = torch.cuda.max_memory_allocated() - row["held_bytes"]
    issued, whole = zip(*(_timed(step) for _ in range(ROUNDS)), strict=True)
    row |= {"step_s": statistics.median(whole), "issued_s": statistics.median(issued)}
    return row | worked(_events(step))


def _cleared() -> int:
    """Forget what an earlier program left; the bytes that stay."""
    import torch

    gc.collect()
    torch.cuda.init()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    return int(torch.cuda.memory_allocated())


def _timed(step: Callable[[], object]) -> tuple[float, float]:
    """Seconds of a step until the host had issued it, and until the device had done it."""
    import torch

    began = time.perf_counter()
    for _ in range(TIMED):
        step()
    issued = time.perf_counter()
    torch.cuda.synchronize()
    return (issued - began) / TIMED, (time.perf_counter() - began) / TIMED


def _events(step: Callable[[], object]) -> list[Row]:
    """A step's trace, as the profiler writes it."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True
    ) as seen:
        step()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        return list(json.loads(file.read_text())["traceEvents"])


def worked(events: Sequence[Row]) -> Row:
    """Device work of a trace: counts, busy seconds, and kernels by the operators that launch them.

    An operator is told with those around it, outermost first ("aten::clone>aten::copy_"), and the
    shapes that the innermost was given.
    """
    done = [event for event in events if event.get("cat") in WORK]
    around = _around(event for event in events if event.get("cat") == "cpu_op")
    found: dict[tuple[str, str], tuple[set[int], Counter[str]]] = {}
    for event in done:
        number = event["args"].get("External id", 0)
        calls, kernels = found.setdefault(around.get(number, ("", "")), (set(), Counter()))
        calls.add(number)
        kernels[event["name"][:NAME_LENGTH]] += 1
    row: Row = {word: sum(e["cat"] == kind for e in done) for kind, word in WORK.items()}
    row["busy_s"] = _union((event["ts"], event["ts"] + event["dur"]) for event in done) / 1e6
    row["by_operator"] = [
        {"op": op, "shapes": shapes, "calls": len(calls), "kernels": dict(kernels)}
        for (op, shapes), (calls, kernels) in found.items()
    ]
    return row


def _around(events: Iterable[Row]) -> dict[int, tuple[str, str]]:
    """By external id: an operator with those around it, and its shapes."""
    found: dict[int, tuple[str, str]] = {}
    open_by: dict[Any, list[Row]] = {}
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        stack = open_by.setdefault(event.get("tid"), [])
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]:
            stack.pop()
        stack.append(event)
        names = [each["name"] for each in stack if "::" in each["name"]]
        chain = ">".join(name for name in names if not name.startswith("autograd::"))
        shapes = str(event["args"].get("Input Dims", ""))
        found[event["args"].get("External id", 0)] = chain or event["name"], shapes
    return found


def _union(spans: Iterable[tuple[float, float]]) -> float:
    total, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        total += max(stop - max(start, end), 0.0)
        end = max(end, stop)
    return total


# -- one after another ----------------------------------------------------------------------------


def run(file: Path, cases: Sequence[Case], seconds: float) -> None:
    """A line for each program that has none yet; no new one after so many seconds."""
    import torch  # once, before forking; no call that wakes the driver

    if any(case.needs for case in cases):
        import transformers  # noqa: F401
    file.parent.mkdir(parents=True, exist_ok=True)
    until = time.perf_counter() + seconds
    versions = {"torch": torch.__version__, "device": _device_name()}
    done = lines(file)
    left = [case for case in cases if case.name not in done]
    while left and time.perf_counter() < until:
        for row in _in_worker(left, until):
            row = {"name": left.pop(0).name} | row | versions
            one.append(file, row)
            print(json.dumps(row)[:160], flush=True)
    print(f"{len(left)} left", flush=True)


def _in_worker(cases: Sequence[Case], until: float) -> Iterator[Row]:
    """Rows of cases in their order, as far as one process comes; the last may be its end."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        for case in cases:
            os.write(write, (json.dumps(one.without_machine(_or_why_not(case))) + "\n").encode())
        os._exit(0)
    os.close(write)
    answers = _answers(read)
    for _ in cases:
        row = next(answers)
        yield row
        if "failed" in row or time.perf_counter() > until:
            break
    os.close(read)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _or_why_not(case: Case) -> Row:
    try:
        return measured(case)
    except BaseException as error:
        where = traceback.format_exc().splitlines()[-4:]
        return {"failed": f"{type(error).__name__}: {error}"[:400], "where": where}


def _answers(read: int) -> Iterator[Row]:
    """The rows that a process writes, each within the limit; at last, why there are no more."""
    kept, until = b"", time.perf_counter() + LIMIT_S
    while select.select([read], [], [], max(until - time.perf_counter(), 0))[0]:
        some = os.read(read, 1 << 16)
        if not some:
            yield {"failed": "the process ended"}
            return
        *whole, kept = (kept + some).split(b"\n")
        for line in whole:
            yield json.loads(line)
            until = time.perf_counter() + LIMIT_S
    yield {"failed": f"no answer within {LIMIT_S:.0f} s"}


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
    content = file.read_bytes()
    text = gzip.decompress(content) if file.suffix == ".gz" else content
    return {row["name"]: row for row in map(json.loads, text.splitlines())}


def main() -> int:
    """Measure what has no line yet."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--which", default="second", choices=("first", "second"))
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--seconds", type=float, default=270.0, help="start none after so long")
    args = parser.parse_args()
    run(args.rows, [c for c in chosen(args.which) if args.only in c.name], args.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
