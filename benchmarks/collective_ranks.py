"""One rank under torchrun for `collective_overlap.py`: calls, timed loops, recorded kernels.

Needs PyTorch alone. Works with NCCL on GPUs; with Gloo on a CPU only the host's times are real.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

# Switches that add (NVLink multicast) are left off: a program that dies while it uses them can
# leave the switches of a shared host in a bad state. Set before NCCL starts.
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

import torch
import torch.distributed as dist

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast")
SPIN_CYCLES = 8_000_000
"""About 4 ms: calls of a loop are issued behind it, so that the device alone is timed."""

GATE_CYCLES = 60_000_000
"""About 30 ms: both sides of an overlap are issued behind one gate."""

Call = Callable[[], object]


@dataclass(frozen=True)
class Recorded:
    """One kernel of a recording, times in seconds."""

    name: str
    start_s: float
    duration_s: float
    stream: int
    grid: int
    block: int

    @property
    def end_s(self) -> float:
        """When it ended."""
        return self.start_s + self.duration_s

    @property
    def is_collective(self) -> bool:
        """NCCL's own kernels."""
        return "nccl" in self.name.lower()


class Rank:
    """This process among the ranks; `write` appends a JSON line, on rank 0."""

    def __init__(self, kind: str, out: Path, budget_s: float) -> None:
        self.began = time.perf_counter()
        self.budget_s = budget_s
        self.out = out
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.on_gpu = kind == "cuda"
        if self.on_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            self.device = f"cuda:{os.environ['LOCAL_RANK']}"
        else:
            self.device = "cpu"
        backend = "nccl" if self.on_gpu else "gloo"
        dist.init_process_group(backend, timeout=timedelta(seconds=45))
        self.dtype = torch.bfloat16 if self.on_gpu else torch.float32

    def write(self, row: dict[str, Any]) -> None:
        """Keep one finding."""
        if self.rank == 0:
            with self.out.open("a") as file:
                file.write(json.dumps(row) + "\n")

    def late(self) -> bool:
        """Whether the time is used up, as rank 0 sees it: all ranks agree."""
        spent = time.perf_counter() - self.began > self.budget_s
        flag = torch.tensor([int(spent)], device=self.device)
        dist.broadcast(flag, 0)
        return bool(flag.item())

    def sync(self) -> None:
        """Wait for the device."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def all(self, value: Any) -> list[Any]:
        """What every rank has, by rank."""
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, value)
        return found

    def together(self) -> None:
        """All ranks are here, and their devices idle."""
        self.sync()
        dist.barrier()
        self.sync()

    def loop_s(self, call: Call, count: int, group: Any) -> float:
        """Seconds a call on the device (the host on a CPU), in a loop behind a spinning kernel."""
        if not self.on_gpu:
            began = time.perf_counter()
            for _ in range(count):
                call()
            return (time.perf_counter() - began) / count
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(SPIN_CYCLES)
        call()  # lines the ranks up
        start.record()
        for _ in range(count):
            call()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * 1e-3 / count

    def recorded(self, work: Call) -> list[Recorded]:
        """Kernels that `work` ran, by start; [] on a CPU."""
        if not self.on_gpu:
            work()
            return []
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            work()
            torch.cuda.synchronize()
        handle, name = tempfile.mkstemp(suffix=".json")
        os.close(handle)
        try:
            profiler.export_chrome_trace(name)
            events = json.loads(Path(name).read_text())["traceEvents"]
        finally:
            with suppress(OSError):
                os.unlink(name)
        return sorted(kernels(events), key=lambda k: k.start_s)


def kernels(events: Iterable[dict[str, Any]]) -> Iterable[Recorded]:
    """The device's kernels among a trace's events."""
    for event in events:
        if event.get("cat") != "kernel":
            continue
        args = event.get("args", {})
        grid, block = args.get("grid", [0, 1, 1]), args.get("block", [0, 1, 1])
        yield Recorded(
            event["name"],
            event["ts"] * 1e-6,
            event["dur"] * 1e-6,
            args.get("stream", -1),
            grid[0] * grid[1] * grid[2],
            block[0] * block[1] * block[2],
        )


def make_call(rank: Rank, operation: str, nbytes: int, group: Any, ranks: Sequence[int]) -> Call:
    """A blocking call on fresh random data; `nbytes` of the whole message (nccl-tests' size)."""
    part = max(nbytes // rank.dtype.itemsize // len(ranks), 1)
    whole = torch.randn(part * len(ranks), device=rank.device).to(rank.dtype)
    one = whole[:part].clone()
    largest = dist.ReduceOp.MAX
    if operation == "all_reduce":
        return lambda: dist.all_reduce(whole, op=largest, group=group)
    if operation == "all_gather":
        return lambda: dist.all_gather_into_tensor(whole, one, group=group)
    if operation == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(one, whole, op=largest, group=group)
    if operation == "broadcast":
        return lambda: dist.broadcast(whole, ranks[0], group=group)
    other = torch.empty_like(whole)
    if operation == "all_to_all":
        return lambda: dist.all_to_all_single(other, whole, group=group)
    place = list(ranks).index(rank.rank)

    def ring() -> None:
        ahead, behind = ranks[(place + 1) % len(ranks)], ranks[place - 1]
        pairs = [
            dist.P2POp(dist.isend, whole, ahead, group=group),
            dist.P2POp(dist.irecv, other, behind, group=group),
        ]
        for work in dist.batch_isend_irecv(pairs):
            work.wait()

    return ring


def calls_of(nbytes: int) -> int:
    """Calls of a timed loop: fewer of large messages, the same on all ranks."""
    return max(4, min(40, int(3e9 / nbytes)))


def union(kernels: Sequence[Recorded], gap_s: float = 30e-6) -> list[tuple[float, float]]:
    """Busy intervals; gaps between back-to-back calls do not break one."""
    found: list[tuple[float, float]] = []
    for kernel in sorted(kernels, key=lambda k: k.start_s):
        if found and kernel.start_s - found[-1][1] <= gap_s:
            found[-1] = (found[-1][0], max(found[-1][1], kernel.end_s))
        else:
            found.append((kernel.start_s, kernel.end_s))
    return found


def covered(kernel: Recorded, busy: Sequence[tuple[float, float]]) -> bool:
    """Whether the other side ran all the while."""
    return any(a <= kernel.start_s and kernel.end_s <= b for a, b in busy)


def shortest(by_rank: Sequence[Sequence[float]]) -> list[float]:
    """For each call, the shortest over the ranks: the transfer without the waiting."""
    count = min((len(times) for times in by_rank if times), default=0)
    return [min(times[i] for times in by_rank if times) for i in range(count)]


def median(values: Sequence[float]) -> float | None:
    """None where there is nothing."""
    return statistics.median(values) if values else None


def facts(rank: Rank) -> dict[str, Any]:
    """Versions and the environment that steers NCCL."""
    known = ("NCCL_", "TORCH_NCCL_", "TORCH_SYMM", "GLOO_")
    version = ".".join(map(str, torch.cuda.nccl.version())) if rank.on_gpu else None
    return {
        "part": "facts",
        "ranks": rank.world,
        "torch": torch.__version__,
        "nccl": version,
        "device": torch.cuda.get_device_name() if rank.on_gpu else "cpu",
        "units": torch.cuda.get_device_properties(0).multi_processor_count if rank.on_gpu else None,
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(known)},
    }


def plain(kernel: Recorded) -> dict[str, Any]:
    """A kernel as JSON."""
    return asdict(kernel)
