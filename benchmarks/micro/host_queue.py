"""The launch queue: gaps when saturated, graph replay, queue depth, the profiler's own cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from host import HostBench

SLEEP_CYCLES = 20_000_000
"""About 10 ms of a spinning kernel: long enough to queue 500 launches behind it."""


def _saturated(bench: HostBench, name: str, call: Callable[[], object], count: int) -> None:
    """Device time per call when all are queued: event pairs around ``count`` calls."""
    samples = []
    for _ in range(7):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(SLEEP_CYCLES)
        start.record()
        for _ in range(count):
            call()
        end.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(end) * 1e6 / count)
    bench.add("queue", name, "device_ns_per_call_saturated", count, samples)


def _graphs(bench: HostBench) -> None:
    x = torch.randn(8, 64, device="cuda")
    for count in (1, 10, 100, 1000, 3000):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                x.add_(1.0)
        bench.once("graph", "replay_launch_host", str(count), 1, lambda g=graph: g.replay)
        samples = []
        for _ in range(9):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(SLEEP_CYCLES // 10)
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            samples.append(start.elapsed_time(end) * 1e6)
        bench.add("graph", "replay_device", str(count), 1, samples)

        def replay_and_wait(g: torch.cuda.CUDAGraph = graph) -> None:
            g.replay()
            torch.cuda.synchronize()

        bench.once("graph", "replay_and_wait", str(count), 1, lambda f=replay_and_wait: f)


def _queue_depth(bench: HostBench) -> None:
    """Launches accepted before a launch call blocks, behind a kernel of about 100 ms."""
    x = torch.randn(64, device="cuda")
    depths = []
    for _ in range(3):
        torch.cuda.synchronize()
        torch.cuda._sleep(SLEEP_CYCLES * 10)
        accepted = 0
        while accepted < 6000:
            began = time.perf_counter_ns()
            x.add_(1.0)
            if time.perf_counter_ns() - began > 5_000_000:
                break
            accepted += 1
        depths.append(float(accepted))
        torch.cuda.synchronize()
    bench.add("queue", "launches_before_blocking", "count", 1, depths)


def _profiled(bench: HostBench) -> None:
    """The same calls under torch.profiler: what observing costs the host."""
    from torch.profiler import ProfilerActivity, profile

    x, w = torch.randn(8, 64, device="cuda"), torch.randn(64, 64, device="cuda")
    y = x.clone().requires_grad_()
    calls: dict[str, Callable[[], object]] = {
        "add": lambda: x + x, "mm": lambda: x @ w, "add_grad": lambda: y + y,
        "view": lambda: x.view(-1),
        "softmax": lambda: x.softmax(-1),
    }  # fmt: skip
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    for name, call in calls.items():
        bench.calls("profiler", name, "before", call)
    for label, options in (
        ("on_cuda_only", {"activities": activities[1:]}), ("on", {"activities": activities}),
        ("on_shapes", {"activities": activities, "record_shapes": True}),
        ("on_shapes_stack_memory", {"activities": activities, "record_shapes": True,
                                    "with_stack": True, "profile_memory": True}),
    ):  # fmt: skip
        with profile(**options):  # type: ignore[arg-type]
            for name, call in calls.items():
                bench.calls("profiler", name, label, call)
    for name, call in calls.items():
        bench.calls("profiler", name, "after", call)


def run(bench: HostBench) -> None:
    """Measure the queue, graphs and (last, for it may leave traces) the profiler."""
    x = torch.randn(8, 64, device="cuda")
    mid = torch.randn(1 << 20, device="cuda")
    w = torch.randn(64, 64, device="cuda")
    h = torch.randn(256, 256, device="cuda", dtype=torch.bfloat16)
    calls: dict[str, Callable[[], object]] = {
        "add_": lambda: x.add_(1.0), "mul_1M": lambda: mid.mul_(1.0), "mm_fp32": lambda: x @ w,
        "mm_bf16_256": lambda: h @ h, "softmax": lambda: x.softmax(-1), "memset": lambda: x.zero_(),
    }  # fmt: skip
    for name, call in calls.items():
        _saturated(bench, name, call, 500)
    event = torch.cuda.Event(enable_timing=True)
    bench.calls("queue", "event_record", "host", event.record)
    stream = torch.cuda.Stream()
    bench.calls("queue", "stream_wait_event", "host", lambda: stream.wait_event(event))
    bench.calls("queue", "current_stream", "host", torch.cuda.current_stream)
    bench.calls("queue", "memory_allocated", "host", torch.cuda.memory_allocated)
    bench.calls("queue", "empty_cache", "host", torch.cuda.empty_cache, 5)
    _queue_depth(bench)
    _graphs(bench)
    _profiled(bench)
