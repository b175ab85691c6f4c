"""Launches: latency from call to kernel start, gaps between kernels, graphs, events, the queue.

Latency and gaps come from the profiler's timestamps (host call and kernel on one clock), the rest
from wall time and events. Only for devices that run beside the host.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gpuscope.document.text import Text
from gpuscope.measurement.bench.host import run_parts
from gpuscope.measurement.bench.host_timing import HostTimer
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point

if TYPE_CHECKING:
    from gpuscope.measurement.bench.context import Context

SLEEP_CYCLES = 20_000_000
"""About 10 ms of a spinning kernel: long enough to queue 500 launches behind it."""

MODES = ("idle", "loop", "saturated", "graph")
"""Launch after launch with a wait each; without; behind a busy device; replayed as one graph."""

_LONGEST_CALL_NS = 5_000_000
"""A launch call that takes longer was held up by a full queue."""


def small_calls(device: str) -> dict[str, Callable[[], object]]:
    """Calls with one tiny kernel each."""
    x, w = torch.randn(8, 64, device=device), torch.randn(64, 64, device=device)
    h = torch.randn(256, 256, device=device, dtype=torch.bfloat16)
    mid = torch.randn(1 << 20, device=device)
    return {
        "add_": lambda: x.add_(1.0),
        "mm_fp32": lambda: x @ w,
        "mm_bf16_256": lambda: h @ h,
        "softmax": lambda: x.softmax(-1),
        "mul_1M": lambda: mid.mul_(1.0),
        "memset": lambda: x.zero_(),
    }


def measure_latency(timer: HostTimer, count: int = 150) -> None:
    """Latency, gap and length of the launch call, by mode and kernel (groups "launch_*")."""
    calls = small_calls(timer.device)
    for mode in MODES:
        for name in ("add_", "mm_fp32", "softmax"):
            try:
                events = _trace(timer, mode, calls[name], count)
            except RuntimeError as error:
                timer.failures.append(f"launch,{name},{mode}: {error}"[:300])
                continue
            for kind, values in latencies(events).items():
                if len(values) >= 10:
                    timer.add(f"launch_{kind}", name, mode, values)


def _trace(
    timer: HostTimer, mode: str, call: Callable[[], object], count: int
) -> list[dict[str, Any]]:
    from torch.profiler import ProfilerActivity, profile

    for _ in range(3):
        call()
    graph = None
    if mode == "graph":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                call()
        graph.replay()
    timer.wait()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as session:
        if graph is not None:
            graph.replay()
        else:
            if mode == "saturated":
                torch.cuda._sleep(SLEEP_CYCLES)
            for _ in range(count):
                call()
                if mode == "idle":
                    timer.wait()
        timer.wait()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        session.export_chrome_trace(str(path))
        events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def latencies(events: Iterable[dict[str, Any]]) -> dict[str, list[float]]:
    """Launch latencies, gaps and lengths of launch calls, seconds.

    Args:
        events: of a Chrome trace, times in microseconds; kernels carry the "correlation" of the
            runtime call that launched them. A spinning kernel is left out.

    Returns:
        "latency": from the start of the call to the start of the kernel; "gap": from the end of
        one kernel to the start of the next; "call": how long the call took.
    """
    complete = [e for e in events if e.get("ph") == "X"]
    launches = {
        e["args"]["correlation"]: e
        for e in complete
        if e.get("cat") in ("cuda_runtime", "cuda_driver", "hip_runtime")
        and "correlation" in e.get("args", {})
        and "Launch" in e["name"]
    }
    kernels = sorted(
        (e for e in complete if e.get("cat") == "kernel" and "spin" not in e["name"]),
        key=lambda e: float(e["ts"]),
    )
    found: dict[str, list[float]] = {"latency": [], "gap": [], "call": []}
    for before, kernel in zip([None, *kernels[:-1]], kernels, strict=True):
        launch = launches.get(kernel["args"].get("correlation"))
        if launch is not None and "Graph" not in launch["name"]:
            found["latency"].append((kernel["ts"] - launch["ts"]) * 1e-6)
            found["call"].append(launch["dur"] * 1e-6)
        if before is not None:
            found["gap"].append((kernel["ts"] - before["ts"] - before["dur"]) * 1e-6)
    return found


def measure_queue(timer: HostTimer) -> None:
    """Device time a call when all are queued; launches that fit in the queue; events."""
    for name, call in small_calls(timer.device).items():
        found = []
        for _ in range(5):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(SLEEP_CYCLES)
            start.record()
            for _ in range(500):
                call()
            end.record()
            timer.wait()
            found.append(start.elapsed_time(end) * 1e-3 / 500)
        timer.add("queue", name, "device_saturated", found, 500)
    event = torch.cuda.Event(enable_timing=True)
    stream = torch.cuda.Stream(timer.device)

    def record_and_wait() -> None:
        event.record()
        event.synchronize()

    calls: dict[str, Callable[[], object]] = {
        "event_record": event.record,
        "event_record_synchronize": record_and_wait,
        "event_query": event.query,
        "stream_wait_event": lambda: stream.wait_event(event),
        "stream_synchronize": torch.cuda.current_stream(timer.device).synchronize,
        "current_stream": lambda: torch.cuda.current_stream(timer.device),
    }
    for name, call in calls.items():
        timer.calls("queue", name, "host", call)
    timer.add("queue", "launches_before_blocking", "count", _depths(timer), 1, "1")


def _depths(timer: HostTimer) -> list[float]:
    """Launches accepted before a launch call blocks, behind a kernel of about 100 ms."""
    x = torch.randn(64, device=timer.device)
    depths = []
    for _ in range(2):
        timer.wait()
        torch.cuda._sleep(SLEEP_CYCLES * 10)
        accepted = 0
        while accepted < 6000:
            began = time.perf_counter_ns()
            x.add_(1.0)
            if time.perf_counter_ns() - began > _LONGEST_CALL_NS:
                break
            accepted += 1
        depths.append(float(accepted))
        timer.wait()
    return depths


def _as_it_is(call: Callable[[], object]) -> Callable[[], object]:
    return call


def measure_graphs(timer: HostTimer, counts: tuple[int, ...] = (1, 10, 100, 1000)) -> None:
    """Replaying graphs of tiny kernels: host call, device time, and both with a wait."""
    x = torch.randn(8, 64, device=timer.device)
    for count in counts:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                x.add_(1.0)
        timer.once("graph", "replay_launch_host", str(count), partial(getattr, graph, "replay"))
        found = []
        for _ in range(9):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(SLEEP_CYCLES // 10)
            start.record()
            graph.replay()
            end.record()
            timer.wait()
            found.append(start.elapsed_time(end) * 1e-3)
        timer.add("graph", "replay_device", str(count), found)

        def replay_and_wait(g: torch.cuda.CUDAGraph = graph) -> None:
            g.replay()
            timer.wait()

        timer.once("graph", "replay_and_wait", str(count), partial(_as_it_is, replay_and_wait))


@bench(
    "launch",
    title=Text("Launches: latency, gaps, graphs, events, queue"),
    quick_s=5,
    full_s=12,
    order=11,
)
def launch(context: Context) -> Iterator[Point]:
    """Measure launches on the device."""
    if context.accelerator.kind != "cuda":
        context.fail("launch", "launch", {}, Text("Only for CUDA and ROCm devices so far."))
        return iter(())
    count = 60 if context.quick else 150
    counts = (1, 100, 1000) if context.quick else (1, 10, 100, 1000)
    return run_parts(
        "launch",
        (
            (frozenset({"queue"}), measure_queue),
            (frozenset({"graph"}), partial(measure_graphs, counts=counts)),
            (frozenset({"launch_latency"}), partial(measure_latency, count=count)),
        ),
        context,
    )
