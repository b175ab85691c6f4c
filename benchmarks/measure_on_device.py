"""Try sensors, `measure` and `profile` on a GPU: `benchmarks/measure_on_device.py --out DIR`.

Writes what it saw and judged to DIR/summary.json, with the sensor's readings (they replay in the
tests), the saved runs and the profile's folder beside it. Each part is tried by itself: one that
fails says so and the others go on. About four minutes on an H200.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "validation"), str(ROOT / "benchmarks")]

SCRIPT = """
import sys, time, torch
device = sys.argv[1]
n = 1024 if device == "cuda" else 64
layers = [torch.nn.Sequential(torch.nn.Linear(n, n), torch.nn.GELU()) for _ in range(8)]
net = torch.nn.Sequential(*layers).to(device)
optimizer = torch.optim.AdamW(net.parameters())
x = torch.randn(n // 4, n, device=device)
wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
times = []
for block in range(12):
    wait(); start = time.perf_counter()
    for _ in range(50):
        optimizer.zero_grad(); net(x).square().mean().backward(); optimizer.step()
    wait(); times.append((time.perf_counter() - start) / 50)
print("BLOCKS", *times)
"""


def sensors(out: Path, device: str) -> dict[str, object]:
    """Readings at rest and under load, how often the energy counter moves, and its power."""
    import torch

    from gpuscope.measurement.sensors import Recorder, energy_between, open_sensor

    opened = open_sensor(0)
    if opened is None:
        return {"sensor": None}
    sensor = Recorder(opened)
    rest = [sensor.read(processes=True)]
    for _ in range(10):
        time.sleep(0.1)
        rest.append(sensor.read())
    a = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
    end = time.perf_counter() + 3
    load, moved, last = [], [], None
    while time.perf_counter() < end:
        for _ in range(20):
            a @ a
        torch.cuda.synchronize()
        load.append(sensor.read())
        if load[-1].energy_j != last:
            moved.append(load[-1].time_s)
            last = load[-1].energy_j
    start = time.perf_counter()
    for _ in range(200):
        opened.read()
    read_s = (time.perf_counter() - start) / 200
    sensor.save(out / "sensor.json")
    span = energy_between(load[0], load[-1])
    gaps = [b - a for a, b in itertools.pairwise(moved)]
    opened.close()
    return {
        "info": str(sensor.info),
        "read_s": read_s,
        "first": str(rest[0]),
        "busy": str(load[-1]),
        "rest_w": statistics.median(r.power_w for r in rest if r.power_w is not None),
        "load_w": statistics.median(r.power_w for r in load if r.power_w is not None),
        "counter_w": span.average_w if span else None,
        "counter_update_s": statistics.median(gaps) if gaps else None,
        "readings": len(sensor.readings),
    }


def workloads(out: Path, device: str) -> dict[str, object]:
    """Workloads of the validation: measured here, held against their recordings of before."""
    from zoo import ZOO

    from gpuscope import api
    from gpuscope.atomic import write_document
    from gpuscope.measurement.run import measure
    from gpuscope.program.workload import WorkloadOptions
    from gpuscope.run.document import run_document

    names = (
        "gpt2-train-b8",
        "gpt2-train-tiny",
        "gpt2-decode-b1",
        "resnet50-train",
        "llama-8b-decode-b1",
    )
    chosen = [e for e in ZOO if e.name in names] if device == "cuda" else []
    rows: dict[str, object] = {}
    for entry in chosen:
        options = WorkloadOptions(**entry.options)  # type: ignore[arg-type]
        start = time.perf_counter()
        run = measure(entry.target, options=options, seconds=3)
        took = time.perf_counter() - start
        write_document(run_document(run), out / f"{entry.name}.json.gz")
        before = json.loads(
            (ROOT / "validation/recordings/h200/zoo" / f"{entry.name}.json").read_text()
        )
        predicted = api.predict(entry.target, run.device_id or "h200", options=options)
        story = run.analysis.memory
        rows[entry.name] = {
            "took_s": took,
            "step_s": run.step_time_s,
            "recorded_step_s": before["step_time_s"],
            "ratio_to_recording": run.step_time_s / before["step_time_s"],
            "interval_s": run.step_time_interval_s,
            "busy_s": run.device_busy_s,
            "recorded_kernel_sum_s": before["kernel_sum_s"],
            "host_s": run.host_busy_s,
            "recorded_issue_s": before["host_issue_s"],
            "peak_bytes": run.peak_memory_bytes,
            "recorded_peak_bytes": before["peak_allocated_bytes"],
            "reserved_bytes": run.reserved_memory_bytes,
            "energy_j": run.energy_j,
            "recorded_energy_j": before["energy_j"],
            "at_peak": dict(story.at_peak) if story else None,
            "modules": len(run.analysis.modules),
            "steps": len(run.timeline.steps),
            "predicted_step_s": predicted.step_time_s,
            "notes": run.assumptions,
            "profiled_over_bare": (run.measurement.profiled_step_s or 0) / run.step_time_s
            if run.measurement
            else None,
            "measurement": str(run.measurement)[:1500],
            "findings": [finding.title for finding in run.analysis.findings],
        }
        print(entry.name, json.dumps(rows[entry.name], default=str)[:400], flush=True)
    return rows


def script(out: Path, device: str) -> dict[str, object]:
    """The same script by itself and under `profile`, in turns: its own clock tells."""
    path = out / "script.py"
    path.write_text(SCRIPT)
    alone, watched = [], []
    profiled = [
        sys.executable,
        "-m",
        "gpuscope",
        "profile",
        "--memory-history",
        "--output-dir",
        str(out / "profile"),
    ]
    for _ in range(3):
        for times, command in ((alone, [sys.executable]), (watched, profiled)):
            ended = subprocess.run(
                [*command, str(path), device],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )
            if ended.returncode:
                raise RuntimeError(ended.stderr[-2000:])
            blocks = [float(t) for t in ended.stdout.split("BLOCKS")[1].split()]
            times.append(statistics.median(blocks[3:]))  # the first blocks are warm-up, or recorded
    from gpuscope.run.reader import load_runs

    (run,) = load_runs(out / "profile" / "run.json.gz")
    return {
        "alone_s": alone,
        "watched_s": watched,
        "step_s": run.step_time_s,
        "ratio": statistics.median(watched) / statistics.median(alone),
        "busy_s": run.device_busy_s,
        "energy_j": run.energy_j,
        "peak_bytes": run.peak_memory_bytes,
        "files": sorted(p.name for p in (out / "profile").iterdir()),
        "notes": run.assumptions,
        "said": ended.stderr[-1500:],
    }


def out_of_memory(out: Path, device: str) -> dict[str, object]:
    """What is said when the device is too small."""
    import torch

    from gpuscope.errors import GpuscopeError
    from gpuscope.measurement.run import measure

    if device == "cpu":  # a host promises memory that it does not have
        return {"kind": "not tried"}

    def build() -> Callable[[], object]:
        return lambda: torch.nn.functional.gelu(torch.empty(2**39, device=device))

    try:
        measure(build, on=device)
    except GpuscopeError as error:
        return {
            "kind": type(error).__name__,
            "what": error.what,
            "why": error.why,
            "next": error.next_step,
        }
    return {"kind": None}


def overhead(out: Path, device: str) -> dict[str, object]:
    """benchmarks/measure_overhead.py, as a process of its own."""
    path = out / "measure_overhead.json"
    command = [
        sys.executable,
        str(ROOT / "benchmarks/measure_overhead.py"),
        "--device",
        device,
        "--rounds",
        "5",
        "--seconds",
        "1",
        "--out",
        str(path),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"table": ended.stdout}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default="", help="names of parts, with commas between")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    summary: dict[str, object] = {}
    for part in (sensors, script, out_of_memory, overhead, workloads):
        if args.only and part.__name__ not in args.only.split(","):
            continue
        start = time.perf_counter()
        try:
            summary[part.__name__] = part(args.out, args.device)
        except Exception:
            summary[part.__name__] = {"failed": traceback.format_exc()[-3000:]}
        print(f"== {part.__name__}: {time.perf_counter() - start:.1f} s", flush=True)
        print(json.dumps(summary[part.__name__], indent=1, default=str)[:3000], flush=True)
        text = json.dumps(summary, indent=1, default=str)
        (args.out / "summary.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
