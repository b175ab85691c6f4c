"""Launch latency (launch call to kernel start) and gaps, from profiler timestamps."""

from __future__ import annotations

import csv
import gzip
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch

COLUMNS = ("case", "kernel", "launch_api", "n", "latency_us", "latency_min_us", "api_us",
           "kernel_us", "gap_us", "gap_min_us")  # fmt: skip


def _export(session: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        session.export_chrome_trace(str(path))
        loaded: dict[str, Any] = json.loads(path.read_bytes())
    return loaded


def _rows(case: str, trace: dict[str, object]) -> list[list[object]]:
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]  # type: ignore[attr-defined]
    launches = {
        e["args"]["correlation"]: e for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver")
        and "correlation" in e.get("args", {}) and "Launch" in e["name"]
    }  # fmt: skip
    kernels = sorted((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    kernels = [k for k in kernels if "spin" not in k["name"]]
    groups: dict[str, list[tuple[float, float, float, float | None, str]]] = {}
    for before, kernel in zip([None, *kernels[:-1]], kernels, strict=True):
        launch = launches.get(kernel["args"].get("correlation"))
        if launch is None:
            continue
        gap = kernel["ts"] - before["ts"] - before["dur"] if before else None
        sample = (kernel["ts"] - launch["ts"], launch["dur"], kernel["dur"], gap, launch["name"])
        groups.setdefault(kernel["name"], []).append(sample)
    rows: list[list[object]] = []
    for name, found in groups.items():
        latencies = [s[0] for s in found]
        gaps = [s[3] for s in found if s[3] is not None]
        rows.append([
            case, name, found[0][4], len(found), round(statistics.median(latencies), 3),
            round(min(latencies), 3), round(statistics.median(s[1] for s in found), 3),
            round(statistics.median(s[2] for s in found), 3),
            round(statistics.median(gaps), 3) if gaps else "", round(min(gaps), 3) if gaps else "",
        ])  # fmt: skip
    return rows


def run(out: Path) -> None:
    """Write ``launch.csv.gz``: idle launches, loops, queues behind a long kernel."""
    from torch.profiler import ProfilerActivity, profile

    x, w = torch.randn(8, 64, device="cuda"), torch.randn(64, 64, device="cuda")
    h = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)
    mid = torch.randn(1 << 22, device="cuda")
    calls = {"add_": lambda: x.add_(1.0), "mm_fp32": lambda: x @ w, "mm_bf16": lambda: h @ h,
             "softmax": lambda: x.softmax(-1), "mul_4M": lambda: mid.mul_(1.0)}  # fmt: skip
    rows: list[list[object]] = []
    for mode in ("idle", "loop", "saturated", "saturated_graph"):
        for name, call in calls.items():
            call()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            if mode == "saturated_graph":
                with torch.cuda.graph(graph):
                    for _ in range(100):
                        call()
                graph.replay()
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as session:
                if mode == "saturated_graph":
                    graph.replay()
                elif mode == "saturated":
                    torch.cuda._sleep(20_000_000)
                for _ in range(0 if mode == "saturated_graph" else 200):
                    call()
                    if mode == "idle":
                        torch.cuda.synchronize()
                torch.cuda.synchronize()
            rows += _rows(f"{mode}:{name}", _export(session))
    with gzip.open(out / "launch.csv.gz", "wt", newline="") as stream:
        csv.writer(stream).writerows([COLUMNS, *rows])
