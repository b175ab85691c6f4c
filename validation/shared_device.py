"""Two processes on one GPU that take turns (time slicing): predicted first, measured after.

    python validation/shared_device.py predict               # no GPU: results/shared_device_*.json
    python validation/shared_device.py measure --out DIR     # one GPU: DIR/shared_device.jsonl

Each process works in a context of its own, as two jobs do that share a device without MPS. Pairs
are of steps that the device paces (training, products, streamed weights) and of one that the host
paces (eager decoding of a small model). A step is timed with a wait at its end, alone and beside
its neighbour; of a pair only what lies between both beginnings and both ends counts. The prediction
is that of one of two equal shares (`h100:time-2`): its middle has a neighbour always at work, its
low end one that rests. No setting of the device is changed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

RESULTS = HERE / "results"
DEVICE = "h100"
"""Predicted for, and committed, before any was run. The machine that came had an H200: the same
prediction for it was made after (`predict --on h200`), by the same code."""

SECONDS = 2.5
"""Of each phase; the first part of it does not count."""
SETTLING_S = 0.4

PAIRS = (
    ("training", "training"),
    ("products", "products"),
    ("streamed", "streamed"),
    ("decoding", "decoding"),
    ("products", "streamed"),
    ("training", "decoding"),
    ("training", "streamed"),
)

Line = dict[str, Any]


def products() -> Callable[[], object]:
    """Eight products of 8192³ in bfloat16: kernels of more than a millisecond."""
    import torch

    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def step() -> object:
        for _ in range(8):
            found = a @ b
        return found

    return step


def streamed() -> Callable[[], object]:
    """Weights of 4 GiB read once for 16 rows, from a graph: what decoding does to the memory."""
    import torch

    weights = [torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) / 90 for _ in range(32)]
    x = torch.randn(16, 8192, device="cuda", dtype=torch.bfloat16)

    def run() -> object:
        found = x
        for each in weights:
            found = found @ each
        return found

    run()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        run()
    return graph.replay


def _named(name: str, **options: Any) -> Callable[[], Callable[[], object]]:
    def build() -> Callable[[], object]:
        from gpuscope.program.models.settings import WorkloadOptions
        from gpuscope.program.workload import resolve

        return resolve(name, WorkloadOptions(**options)).build()

    return build


WORKLOADS: dict[str, Callable[[], Callable[[], object]]] = {
    "training": _named("gpt2", task="train", batch=8, seq=1024),
    "products": products,
    "streamed": streamed,
    "decoding": _named("llama-3.2-1b", task="decode", batch=8, context=512),
}


def predict(on: str) -> None:
    """Predict each step alone and on one of two shares."""
    import gpuscope

    lines, path = list[Line](), RESULTS / f"shared_device_{on}.json"
    for name, build in WORKLOADS.items():
        line: Line = {"workload": name}
        for device in (on, f"{on}:time-2"):
            run = gpuscope.predict(build, on=device)
            line[device] = {
                "step_s": run.step_time_s,
                "interval_s": run.step_time_interval_s,
                "device_busy_s": run.device_busy_s,
                "host_busy_s": run.host_busy_s,
                "energy_j": run.energy_j,
            }
        lines.append(line)
        print(line, flush=True)
    alone = {line["workload"]: line[on] for line in lines}
    pairs: list[Line] = [
        {"pair": pair, "steps_s": _turns(*(alone[name] for name in pair))} for pair in PAIRS
    ]
    found = {"alone_and_shared": lines, "pairs": pairs}
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _turns(*both: Line) -> list[float]:
    """Steps of two that take turns: each has half of the time, and what the other leaves of its.

    Equal turns give a process at least half of the time; one that its host paces leaves the rest
    to the other. A step is its host's work, or its device's stretched by its share of the time.
    """
    used = [0.5, 0.5]
    steps = [0.0, 0.0]
    for _ in range(50):
        for own in range(2):
            share = max(0.5, 1 - used[1 - own])
            host_s = max(both[own]["host_busy_s"], both[own]["step_s"])
            steps[own] = max(host_s, both[own]["device_busy_s"] / share)
            used[own] = both[own]["device_busy_s"] / steps[own]
    return steps


# -- on the device ---------------------------------------------------------------------------------


def measure(out: Path, budget_s: float) -> None:
    """Every step alone, then every pair, each process at the same time as the other."""
    out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(2)
    workers = [context.Process(target=_worker, args=(number, together, out)) for number in range(2)]
    for each in workers:
        each.start()
    for each in workers:
        each.join(max(1.0, budget_s - (time.monotonic() - begun)))
        if each.is_alive():
            print("out of time", flush=True)
            each.terminate()


def _phases() -> list[tuple[str | None, str | None]]:
    return [*((name, None) for name in WORKLOADS), *PAIRS]


def _worker(number: int, together: Any, out: Path) -> None:
    """One process: builds what it needs, then goes through the phases in step with the other."""
    import torch

    wanted = {pair[number] for pair in _phases()} - {None}
    steps = {}
    for name in WORKLOADS:
        if name in wanted:
            steps[name] = WORKLOADS[name]()
            for _ in range(3):
                steps[name]()
            torch.cuda.synchronize()
    for pair in _phases():
        own, other = pair[number], pair[1 - number]
        together.wait()
        if own is None:
            together.wait()
            continue
        begun, times, energy = time.perf_counter(), list[tuple[float, float]](), _energy_j()
        while time.perf_counter() < begun + SECONDS:
            at = time.perf_counter()
            steps[own]()
            torch.cuda.synchronize()
            times.append((at, time.perf_counter()))
        used, took_s = _energy_j(), time.perf_counter() - begun
        together.wait()
        counted = [b - a for a, b in times if a >= begun + SETTLING_S and b <= begun + SECONDS]
        line: Line = {"process": number, "workload": own, "beside": other, "steps": len(counted)}
        line |= {"median_s": statistics.median(counted), "mean_s": statistics.mean(counted)}
        ordered = sorted(counted)
        line |= {
            f"p{p}_s": ordered[min(len(ordered) - 1, len(ordered) * p // 100)] for p in (10, 90)
        }
        line["board_w"] = None if None in (energy, used) else (used - energy) / took_s
        line |= {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        with (out / "shared_device.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(own, "beside", other, line["mean_s"], flush=True)


def _energy_j() -> float | None:
    """Of the whole board since the driver was loaded."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3
    except Exception:  # no such counter: the times count all the same
        return None


def main() -> None:
    """Predict or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("predict", "measure"))
    parser.add_argument("--on", default=DEVICE)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--budget", type=float, default=70.0, help="seconds in all")
    args = parser.parse_args()
    if args.what == "predict":
        predict(args.on)
    else:
        measure(args.out, args.budget)


if __name__ == "__main__":
    main()
