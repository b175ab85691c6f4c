"""The collectives that are timed, and what a time of theirs is worth as bandwidth.

Sizes and bandwidths follow nccl-tests (doc/PERFORMANCE.md, "Bandwidth"): the algorithm bandwidth
is S / t with S the bytes of the whole message (the tensor that is reduced or broadcast, the
gathered output, the scattered input, what each rank exchanges); the bus bandwidth multiplies it by
what an ideal algorithm must send per link, so that it can be held against a link's rate whatever
the number of ranks n:

    all_reduce 2 (n - 1) / n;  all_gather, reduce_scatter, all_to_all (n - 1) / n;
    broadcast, reduce, send_recv 1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError

OPERATIONS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "send_recv",
)


def bus_factor(operation: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth.

    Raises:
        UnknownNameError: not one of `OPERATIONS`.
    """
    if operation not in OPERATIONS:
        raise UnknownNameError(Text("collective"), operation, OPERATIONS)
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if operation in ("all_gather", "reduce_scatter", "all_to_all"):
        return (ranks - 1) / ranks
    return 1.0


def bandwidths(
    operation: str, ranks: int, size_bytes: float, seconds: float
) -> tuple[float, float]:
    """Algorithm and bus bandwidth, bytes/s.

    Raises:
        UnknownNameError: not one of `OPERATIONS`.
    """
    algorithm = size_bytes / seconds
    return algorithm, algorithm * bus_factor(operation, ranks)


def sizes(largest_bytes: int, *, quick: bool) -> tuple[int, ...]:
    """Message sizes from 1 KiB up to `largest_bytes`, each four times the one before (or 32)."""
    step = 32 if quick else 4
    found, size = [], 1024
    while size < largest_bytes:
        found.append(size)
        size *= step
    return (*found, largest_bytes)


def group_sizes(world: int) -> tuple[int, ...]:
    """Powers of two up to the world's size, and that itself; groups of one are none."""
    found = [n for n in (2, 4, 8, 16, 32, 64) if n < world]
    return (*found, world) if world > 1 else ()


def make_call(
    operation: str, size_bytes: int, group: Any, ranks: int, device: str
) -> tuple[Callable[[], object], int]:
    """One call of a collective on fresh random tensors, and the bytes it truly has.

    Tensors are bfloat16 (float32 on a CPU). Reductions take the largest value, since a sum that is
    repeated in place soon overflows, and infinities are not random data.

    Args:
        operation: one of `OPERATIONS`.
        size_bytes: asked for; rounded down to whole elements for every rank, at least one.
        group: a process group that this rank is in, whose first rank is rank 0.
        ranks: how many are in it.
        device: where the tensors live.

    Raises:
        UnknownNameError: not one of `OPERATIONS`.
    """
    import torch
    import torch.distributed as dist

    if operation not in OPERATIONS:
        raise UnknownNameError(Text("collective"), operation, OPERATIONS)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    itemsize = dtype.itemsize
    part = max(size_bytes // itemsize // ranks, 1)
    whole = torch.randn(part * ranks, device=device).to(dtype)
    one = torch.randn(part, device=device).to(dtype)
    rank = dist.get_rank()
    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(whole, op=dist.ReduceOp.MAX, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, one, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(one, whole, group=group),
        "broadcast": lambda: dist.broadcast(whole, 0, group=group),
        "reduce": lambda: dist.reduce(whole, 0, op=dist.ReduceOp.MAX, group=group),
    }
    if operation == "all_to_all":
        other = torch.empty_like(whole)
        calls["all_to_all"] = lambda: dist.all_to_all_single(other, whole, group=group)
    if operation == "send_recv":
        other = torch.empty_like(whole)
        ahead, behind = (rank + 1) % ranks, (rank - 1) % ranks

        def ring() -> None:
            pairs = [
                dist.P2POp(dist.isend, whole, ahead, group=group),
                dist.P2POp(dist.irecv, other, behind, group=group),
            ]
            for work in dist.batch_isend_irecv(pairs):
                work.wait()

        calls["send_recv"] = ring
    return calls[operation], part * ranks * itemsize
