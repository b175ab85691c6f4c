"""What a collective's call costs the host, and messages between two ranks (`collective_overlap`).

Every figure of `host` is the median of single calls, each timed on its own, issued without waiting
for the device in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from collective_ranks import Rank, median

CALLS = 60
BATCHES = 4


def host(rank: Rank) -> None:
    """Part `host`: asynchronous, blocking and functional calls, and what they are made of."""
    for name, (call, after) in _host_calls(rank).items():
        if rank.late():
            return
        try:
            first, second = _timed(rank, call, after)
        except Exception as error:  # not in this version: the others go on (all ranks alike)
            rank.write({"part": "host", "call": name, "failed": str(error)[:200]})
            continue
        by_rank = rank.all((median(first), median(second)))
        rank.write(
            {
                "part": "host",
                "call": name,
                "ranks": rank.world,
                "call_s": [r[0] for r in by_rank],
                "wait_s": [r[1] for r in by_rank] if after else None,
                "least_s": min(first),
                "n": len(first),
            }
        )


Pair = tuple[Callable[[], Any], Callable[[Any], object] | None]


def _timed(
    rank: Rank, call: Callable[[], Any], after: Callable[[Any], object] | None
) -> tuple[list[float], list[float]]:
    calls, waits = [], []
    for batch in range(BATCHES):
        rank.together()
        results = []
        for _ in range(CALLS):
            began = time.perf_counter()
            results.append(call())
            calls.append(time.perf_counter() - began)
        for result in results if after else ():
            began = time.perf_counter()
            after(result)
            waits.append(time.perf_counter() - began)
        rank.sync()
        if not batch:  # the first one warms up
            calls.clear(), waits.clear()
    return calls, waits


def _host_calls(rank: Rank) -> dict[str, Pair]:
    """Each call, and what then waits for its result."""
    n = rank.world
    whole = torch.randn(1024 * n, device=rank.device).to(rank.dtype)
    one, other = whole[:1024].clone(), torch.empty_like(whole)
    name = dist.group.WORLD.group_name
    functional = torch.ops._c10d_functional
    wait = torch.ops._c10d_functional.wait_tensor
    four = [(torch.empty_like(whole), one.clone()) for _ in range(4)]

    def coalesced() -> None:
        from torch.distributed.distributed_c10d import _coalescing_manager

        with _coalescing_manager(device=torch.device(rank.device), async_ops=True) as manager:
            for out, part in four:
                dist.all_gather_into_tensor(out, part)
        manager.wait()

    def ring() -> list[Any]:
        ahead, behind = (rank.rank + 1) % n, (rank.rank - 1) % n
        return dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, whole, ahead), dist.P2POp(dist.irecv, other, behind)]
        )

    def waited(work: Any) -> None:
        work.wait()

    found: dict[str, Pair] = {
        "aten::add (for scale)": (lambda: torch.add(one, 1.0), None),
        "all_reduce async": (lambda: dist.all_reduce(whole, async_op=True), waited),
        "all_reduce blocking": (lambda: dist.all_reduce(whole), None),
        "all_gather_into_tensor async": (
            lambda: dist.all_gather_into_tensor(other, one, async_op=True),
            waited,
        ),
        "all_gather_into_tensor blocking": (lambda: dist.all_gather_into_tensor(other, one), None),
        "reduce_scatter_tensor async": (
            lambda: dist.reduce_scatter_tensor(one, whole, async_op=True),
            waited,
        ),
        "reduce_scatter_tensor blocking": (lambda: dist.reduce_scatter_tensor(one, whole), None),
        "all_to_all_single async": (
            lambda: dist.all_to_all_single(other, whole, async_op=True),
            waited,
        ),
        "all_to_all_single blocking": (lambda: dist.all_to_all_single(other, whole), None),
        "broadcast blocking": (lambda: dist.broadcast(whole, 0), None),
        "functional all_reduce": (lambda: functional.all_reduce(whole, "max", name), wait),
        "functional all_gather_into_tensor": (
            lambda: functional.all_gather_into_tensor(one, n, name),
            wait,
        ),
        "functional reduce_scatter_tensor": (
            lambda: functional.reduce_scatter_tensor(whole, "max", n, name),
            wait,
        ),
        "coalesced all_gather of 4": (coalesced, None),
        "batch_isend_irecv of 2": (ring, lambda works: [w.wait() for w in works]),
    }
    if rank.on_gpu:
        stream, event = torch.cuda.Stream(), torch.cuda.Event()
        found["stream.wait_stream"] = (
            lambda: stream.wait_stream(torch.cuda.current_stream()),
            None,
        )
        found["event.record"] = (event.record, None)
    return found


def point(rank: Rank) -> None:
    """Part `point`: ranks 0 and 1, to and fro, and one way; the others look on."""
    for size in (8, *(1 << power for power in (10, 14, 16, 18, 20, 22, 24, 26, 28))):
        if rank.late() or (not rank.on_gpu and size > 1 << 16):
            return
        count = 20 if size < 1 << 20 else 5
        times: dict[str, float] = {}
        if rank.rank < 2:
            data = torch.zeros(max(size // rank.dtype.itemsize, 1), device=rank.device).to(
                rank.dtype
            )
            ways = {
                "to and fro": lambda data=data: _to_and_fro(rank, data),
                "one way": lambda data=data: _one_way(rank, data),
            }
            for name, call in ways.items():
                call()
                times[name] = min(rank.loop_s(call, count, None) for _ in range(3))
        by_rank = rank.all(times)[:2]
        for name in times:
            legs = 2 if name == "to and fro" else 1
            rank.write(
                {
                    "part": "point",
                    "way": name,
                    "bytes": size,
                    "message_s": max(t[name] for t in by_rank) / legs,
                }
            )


def _to_and_fro(rank: Rank, data: torch.Tensor) -> None:
    if rank.rank == 0:
        dist.send(data, 1)
        dist.recv(data, 1)
    else:
        dist.recv(data, 0)
        dist.send(data, 0)


def _one_way(rank: Rank, data: torch.Tensor) -> None:
    if rank.rank == 0:
        dist.send(data, 1)
    else:
        dist.recv(data, 0)
