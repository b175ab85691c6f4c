"""A rank of the collectives' bench: `torchrun -m gpuscope.measurement.bench.collective_worker`.

Every rank times the same calls; the slowest rank's time counts. NCCL on GPUs, Gloo on CPUs. Rank 0
appends one JSON line a measurement to the output, so that an interrupted run keeps what it had.
Two times are taken where there is a device: "queued" has the calls wait behind a busy device, so
that only the device is timed; "loop" is a plain loop, which small messages leave to the host.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpuscope.measurement.bench.collective_calls import OPERATIONS, group_sizes, make_call, sizes

GIB = 1 << 30
REPEATS = 5
_TARGET_S = 0.012
"""Length of one timed loop, roughly."""

_QUEUE_CYCLES = 4_000_000
"""About 2 ms of a spinning kernel, for a loop's calls to be issued behind."""

_MOST_CALLS = 50
_GATE_CYCLES = 20_000_000
"""About 10 ms: both sides of an overlap are issued behind one gate, so that they start together."""

_ISSUED_BYTES = 4096
_ISSUED_CALLS = 60
"""Calls between two waits, well below what the queue of launches holds."""

_MATMUL = 4096
_MATMUL_CALLS = 20


class Rank:
    """This process's place among the ranks, and its device.

    Attributes:
        rank: number of this rank.
        world: number of ranks.
        device: "cuda:2" or "cpu".
    """

    def __init__(self, device_kind: str) -> None:
        import torch
        import torch.distributed as dist

        self.rank = int(os.environ["RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        if device_kind == "cuda":
            local = int(os.environ.get("LOCAL_RANK", "0"))
            torch.cuda.set_device(local)
            self.device = f"cuda:{local}"
            dist.init_process_group("nccl", device_id=torch.device(self.device))
        else:
            self.device = "cpu"
            dist.init_process_group("gloo")
        self._torch, self._dist = torch, dist

    @property
    def on_gpu(self) -> bool:
        """Whether there is a device beside the host."""
        return self.device != "cpu"

    def close(self) -> None:
        """Leave the group."""
        self._dist.destroy_process_group()

    def wait(self) -> None:
        """Wait for the device."""
        if self.on_gpu:
            self._torch.cuda.synchronize()

    def slowest(self, seconds: float, group: Any) -> float:
        """The longest time of any rank of the group."""
        value = self._torch.tensor([seconds], dtype=self._torch.float64, device=self.device)
        self._dist.all_reduce(value, op=self._dist.ReduceOp.MAX, group=group)
        return float(value.item())

    def loop_s(
        self, call: Callable[[], object], count: int, group: Any, *, queued: bool = False
    ) -> float:
        """Seconds a call in a loop of `count`, of the slowest rank."""
        self._dist.barrier(group=group)
        self.wait()
        if not self.on_gpu:
            began = time.perf_counter()
            for _ in range(count):
                call()
            return self.slowest((time.perf_counter() - began) / count, group)
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        if queued:
            self._torch.cuda._sleep(_QUEUE_CYCLES)
            call()  # brings the ranks together again
        start.record()
        for _ in range(count):
            call()
        end.record()
        self.wait()
        return self.slowest(start.elapsed_time(end) * 1e-3 / count, group)


def run(rank: Rank, out: Path | None, *, quick: bool, largest: int) -> None:
    """Time every collective in groups of every size, then beside a matrix product."""
    import torch.distributed as dist

    def write(row: Mapping[str, Any]) -> None:
        if rank.rank == 0 and out is not None:
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")

    counts = group_sizes(rank.world)
    counts = counts[-1:] if quick else counts
    for ranks in counts:
        group = dist.new_group(list(range(ranks))) if ranks < rank.world else dist.group.WORLD
        if rank.rank < ranks:
            for operation in OPERATIONS:
                _operation(rank, operation, group, ranks, write, quick=quick, largest=largest)
            if rank.on_gpu and ranks == rank.world:
                _issuing(rank, group, ranks, write)
                _beside_compute(rank, group, ranks, write)
        dist.barrier()


def _operation(
    rank: Rank,
    operation: str,
    group: Any,
    ranks: int,
    write: Callable[[Mapping[str, Any]], None],
    *,
    quick: bool,
    largest: int,
) -> None:
    for size in sizes(largest, quick=quick):
        row: dict[str, Any] = {"bench": "collectives", "operation": operation, "ranks": ranks}
        try:
            call, true_bytes = make_call(operation, size, group, ranks, rank.device)
            row["bytes"] = true_bytes
            for _ in range(3):
                call()
            once = rank.loop_s(call, 2, group)
            count = max(2, min(_MOST_CALLS, int(_TARGET_S / once)))
            for state in ("queued", "loop") if rank.on_gpu else ("loop",):
                seconds = [
                    rank.loop_s(call, count, group, queued=state == "queued")
                    for _ in range(3 if quick else REPEATS)
                ]
                write({**row, "state": state, "seconds": seconds, "calls": count})
        except RuntimeError as error:  # all ranks fail alike: unsupported, or no memory
            write({**row, "failed": str(error).splitlines()[0][:200]})
            return


def _issuing(
    rank: Rank, group: Any, ranks: int, write: Callable[[Mapping[str, Any]], None]
) -> None:
    """What issuing each collective costs this rank's host, without waiting for it."""
    for operation in OPERATIONS:
        call, size = make_call(operation, _ISSUED_BYTES, group, ranks, rank.device)
        seconds = []
        for batch in range(3):
            rank.loop_s(call, 2, group)
            for _ in range(_ISSUED_CALLS):
                began = time.perf_counter()
                call()
                seconds.append(time.perf_counter() - began)
            rank.wait()
            if not batch:  # warms up
                seconds.clear()
        write(
            {
                "bench": "collectives",
                "operation": operation,
                "ranks": ranks,
                "bytes": size,
                "state": "host",
                "seconds": seconds,
                "calls": 1,
            }
        )


def _beside_compute(
    rank: Rank, group: Any, ranks: int, write: Callable[[Mapping[str, Any]], None]
) -> None:
    """How much a matrix product and a collective slow each other down."""
    import torch

    a = torch.randn(_MATMUL, _MATMUL, device=rank.device, dtype=torch.bfloat16)
    b = torch.randn(_MATMUL, _MATMUL, device=rank.device, dtype=torch.bfloat16)
    out = torch.empty_like(a)

    def product() -> None:
        torch.mm(a, b, out=out)

    for operation in ("all_reduce", "all_gather"):
        call, size = make_call(operation, 64 << 20, group, ranks, rank.device)
        for _ in range(3):
            call()
            product()
        alone = {
            "product": statistics.median(_side(rank, product, None, group)[0] for _ in range(3)),
            "collective": statistics.median(_side(rank, None, call, group)[1] for _ in range(3)),
        }
        both = [_side(rank, product, call, group, alone) for _ in range(REPEATS)]
        for what, seconds in (
            ("product", [p for p, _ in both]),
            ("collective", [c for _, c in both]),
        ):
            write(
                {
                    "bench": "collective_overlap",
                    "operation": operation,
                    "ranks": ranks,
                    "bytes": size,
                    "what": what,
                    "alone_s": alone[what],
                    "seconds": seconds,
                    "product": _MATMUL,
                    "state": "loop",
                }
            )


def _side(
    rank: Rank,
    product: Callable[[], None] | None,
    call: Callable[[], object] | None,
    group: Any,
    alone: Mapping[str, float] | None = None,
) -> tuple[float, float]:
    """Seconds a product and a collective, each on its stream, in loops of about equal length."""
    import torch
    import torch.distributed as dist

    counts = {"product": _MATMUL_CALLS, "collective": _MATMUL_CALLS}
    if alone:
        ratio = alone["product"] / alone["collective"]
        # All ranks must make as many calls: each measured `alone` for itself, the largest counts.
        agreed = rank.slowest(float(max(3, min(200, round(_MATMUL_CALLS * ratio)))), group)
        counts["collective"] = round(agreed)
    dist.barrier(group=group)
    rank.wait()
    found = {}
    streams = {"product": torch.cuda.Stream(), "collective": torch.cuda.Stream()}
    events = {}
    torch.cuda._sleep(_GATE_CYCLES)
    gate = torch.cuda.Event()
    gate.record()
    for what, work in (("collective", call), ("product", product)):
        if work is None:
            continue
        with torch.cuda.stream(streams[what]):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            gate.wait()
            start.record()
            for _ in range(counts[what]):
                work()
            end.record()
            events[what] = (start, end)
    rank.wait()
    for what, (start, end) in events.items():
        found[what] = start.elapsed_time(end) * 1e-3 / counts[what]
    return found.get("product", 0.0), found.get("collective", 0.0)


def facts(rank: Rank) -> dict[str, Any]:
    """Backend, versions, and the environment that steers NCCL, left as it is."""
    import torch

    version = ".".join(map(str, torch.cuda.nccl.version())) if rank.on_gpu else None
    known = ("NCCL_", "TORCH_NCCL_", "GLOO_", "CUDA_VISIBLE_DEVICES")
    return {
        "bench": "collectives",
        "facts": True,
        "ranks": rank.world,
        "backend": "nccl" if rank.on_gpu else "gloo",
        "nccl": version,
        "torch": torch.__version__,
        "device": rank.device,
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(known)},
    }


def main(arguments: list[str] | None = None) -> None:
    """Run one rank; the arguments are those that `collectives.run_ranks` gives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--largest", type=int, default=GIB)
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # names of collectives differ from version to version
    rank = Rank(args.device)
    if rank.rank == 0:
        with args.out.open("a") as file:
            file.write(json.dumps(facts(rank)) + "\n")
    run(rank, args.out, quick=args.quick, largest=args.largest)
    rank.close()


if __name__ == "__main__":
    main()
