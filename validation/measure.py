"""Measure the zoo on this machine's GPU: `python validation/measure.py --out DIR [name ...]`.

Per workload, in a process of its own (forked after the imports, before CUDA):
step time without the profiler (blocks of steps between synchronisations, after warm-up), the
host's time to issue a step, peak memory, energy from the device's counter, then one profiled
step with every kernel in order, the operator that launched it and its shapes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]

from zoo import NEWEST, ZOO, Entry  # noqa: E402


def resolve_build(entry: Entry) -> Callable[[], Callable[[], object]]:
    if ".py:" in entry.target:
        import importlib

        module, _, function = entry.target.partition(".py:")
        return getattr(importlib.import_module(module), function)
    from gpuscope.program.workload import WorkloadOptions, resolve

    return resolve(entry.target, WorkloadOptions(**entry.options)).build


def _energy_mj() -> float | None:
    """Of the device in use, by its UUID: NVML counts those that the process does not see, too."""
    try:
        import pynvml
        import torch

        pynvml.nvmlInit()
        uuid = torch.cuda.get_device_properties(0).uuid
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        return pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except Exception:
        return None


def measure(entry: Entry, out: Path, seconds: float) -> dict[str, object]:
    import torch

    torch.cuda.init()
    build = resolve_build(entry)
    started = time.perf_counter()
    step = build()
    torch.cuda.synchronize()
    build_peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    resident = torch.cuda.memory_allocated()
    firsts = []
    for _ in range(5):
        t = time.perf_counter()
        step()
        torch.cuda.synchronize()
        firsts.append(time.perf_counter() - t)
    first_peak = torch.cuda.max_memory_allocated()
    rough = min(firsts)
    torch.cuda.reset_peak_memory_stats()
    per_block = max(3, min(200, int(seconds / 6 / rough) + 1))
    blocks, energy0, t0 = [], _energy_mj(), time.perf_counter()
    for _ in range(6):
        t = time.perf_counter()
        for _ in range(per_block):
            step()
        torch.cuda.synchronize()
        blocks.append((time.perf_counter() - t) / per_block)
    window_s = time.perf_counter() - t0
    energy1 = _energy_mj()
    steps = per_block * 6
    issue = []
    for _ in range(7):
        torch.cuda.synchronize()
        t = time.perf_counter()
        step()
        issue.append(time.perf_counter() - t)
    torch.cuda.synchronize()
    record = {
        "name": entry.name,
        "target": entry.target,
        "options": entry.options,
        "group": entry.group,
        "step_time_s": statistics.median(blocks),
        "blocks_s": blocks,
        "first_steps_s": firsts,
        "steps": steps,
        "host_issue_s": statistics.median(issue),
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
        "first_peak_bytes": first_peak,
        "build_peak_bytes": build_peak,
        "resident_bytes": resident,
        "energy_j": (energy1 - energy0) / 1e3 / steps if energy0 and window_s > 1 else None,
        "average_w": (energy1 - energy0) / 1e3 / window_s if energy0 and window_s > 1 else None,
        "settings": {
            "tf32_matmul": torch.backends.cuda.matmul.allow_tf32,
            "tf32_cudnn": torch.backends.cudnn.allow_tf32,
        },
    }
    rows = profile(step)
    record["kernel_count"] = len(rows)
    record["kernel_sum_s"] = sum(r[2] for r in rows) / 1e6
    with gzip.open(out / f"{entry.name}.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            [
                "start_us",
                "stream",
                "duration_us",
                "kernel",
                "grid",
                "block",
                "op",
                "shapes",
                "bytes",
            ]
        )
        writer.writerows(rows)
    record["total_s"] = time.perf_counter() - started
    return record


def profile(step: Callable[[], object]) -> list[tuple[object, ...]]:
    """Device events of one step in order, each with the innermost operator that launched it."""
    import torch
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as torch_profile

    with torch_profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True
    ) as prof:
        step()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        prof.export_chrome_trace(str(path))
        events = json.loads(path.read_text(errors="replace"))["traceEvents"]
    launches = {}
    ops: dict[int, list[tuple[float, float, str, str]]] = {}
    for e in events:
        cat = e.get("cat")
        if cat in ("cuda_runtime", "cuda_driver"):
            launches[e["args"].get("correlation")] = (e["tid"], e["ts"])
        elif cat == "cpu_op":
            shapes = json.dumps(e.get("args", {}).get("Input Dims", ""), separators=(",", ":"))
            ops.setdefault(e["tid"], []).append((e["ts"], e["ts"] + e["dur"], e["name"], shapes))
    for spans in ops.values():
        spans.sort(key=lambda s: (s[0], -s[1]))
    device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    device.sort(key=lambda e: e["ts"])
    first = device[0]["ts"] if device else 0.0
    rows = []
    for e in device:
        args = e["args"]
        tid, ts = launches.get(args.get("correlation"), (None, 0.0))
        op, shapes = _innermost(ops.get(tid, []), ts)
        rows.append(
            (
                round(e["ts"] - first, 3),
                args.get("stream", 0),
                round(e["dur"], 3),
                e["name"][:160],
                "x".join(map(str, args.get("grid", []))),
                "x".join(map(str, args.get("block", []))),
                op,
                shapes[:300],
                args.get("bytes", ""),
            )
        )
    return rows


def _innermost(spans: list[tuple[float, float, str, str]], ts: float) -> tuple[str, str]:
    import bisect

    at = bisect.bisect_right(spans, (ts, float("inf"), "", "")) - 1
    for i in range(at, max(-1, at - 60), -1):
        if spans[i][0] <= ts < spans[i][1]:
            return spans[i][2], spans[i][3]
    return "", ""


def machine() -> dict[str, object]:
    import platform

    import torch

    facts: dict[str, object] = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }
    try:
        import transformers

        facts["transformers"] = transformers.__version__
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        facts["cpu"] = next(x.partition(":")[2].strip() for x in lines if "model name" in x)
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        facts["gpu"] = pynvml.nvmlDeviceGetName(handle)
        facts["driver"] = pynvml.nvmlSystemGetDriverVersion()
    except Exception as error:
        facts["note"] = repr(error)
    return facts


def warm_compiler(entries: list[Entry]) -> None:
    """Run a step of each compiled workload, all at once, so that the compiler's cache is full.

    Compiling takes up to a minute a model, mostly on one core: beside each other they take little
    longer than the slowest. Nothing is timed here.
    """
    pids = []
    for entry in entries:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                step = resolve_build(entry)()
                for _ in range(2):
                    step()
                code = 0
            except BaseException as error:
                text = str(error).strip().split("\n")[0][:200]
                print(f"{entry.name}: warming failed: {type(error).__name__}: {text}", flush=True)
            os._exit(code)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)


def bench_host(out: Path) -> None:
    """This machine's own host constants, so that host-bound steps can be judged with them."""
    command = [
        sys.executable,
        "-m",
        "gpuscope",
        "bench",
        "--only",
        "host,launch",
        "-o",
        str(out / "bench"),
        "--quiet",
    ]
    found = (str(HERE.parent / "src"), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, found))}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150)
        said = " ".join((done.stdout + done.stderr).replace("│", " ").split())
        print(f"bench: exit {done.returncode}: {said[-300:]}", flush=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"bench: not run: {error}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=2.5, help="timed seconds a workload")
    parser.add_argument("--budget", type=float, default=560, help="stop after this many seconds")
    parser.add_argument("--newest", action="store_true", help="the newest rows of the zoo")
    parser.add_argument("--warm", action="store_true", help="first compile what compiles, at once")
    parser.add_argument("--bench", action="store_true", help="also bench the host (a minute)")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.bench or args.newest:
        bench_host(args.out)
    started = time.perf_counter()
    import torch  # noqa: F401
    import transformers  # noqa: F401

    names = {*args.names, *(NEWEST if args.newest else ())}
    chosen = [e for e in ZOO if not names or e.name in names]
    for entry in chosen:  # import what builds need before forking
        try:
            resolve_build(entry)
        except Exception as error:
            print(f"{entry.name}: cannot resolve: {error!r}", flush=True)
    (args.out / "machine.json").write_text(json.dumps(machine(), indent=1))
    if args.warm:
        warm_compiler([e for e in chosen if e.compiled])
        print(f"compiled after {time.perf_counter() - started:.0f} s", flush=True)
    for entry in chosen:
        if time.perf_counter() - started > args.budget:
            print(f"{entry.name}: left out, no time", flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                record = measure(entry, args.out, args.seconds)
                (args.out / f"{entry.name}.json").write_text(json.dumps(record, indent=1))
                print(
                    f"{entry.name}: {record['step_time_s'] * 1e3:.3f} ms, issue "
                    f"{record['host_issue_s'] * 1e3:.3f} ms, kernels "
                    f"{record['kernel_sum_s'] * 1e3:.3f} ms, peak "
                    f"{record['peak_allocated_bytes'] / 2**30:.3f} GiB, "
                    f"{record['average_w'] or 0:.0f} W, {record['total_s']:.1f} s",
                    flush=True,
                )
                code = 0
            except BaseException as error:
                text = str(error).strip().split("\n")[0][:300]
                print(f"{entry.name}: FAILED {type(error).__name__}: {text}", flush=True)
            os._exit(code)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
