"""Copies between the devices of one host, over their own link or through the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from gpuscope.document.text import Text
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import BenchCase
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point, Value

SIZES = (1 << 28, 1 << 24, 1 << 20, 1 << 16, 1 << 30, 1 << 12)


@bench("peer", title=Text("Copies between devices"), quick_s=2, full_s=8, needs="gpus", order=7)
def peer(context: Context) -> Iterator[Point]:
    """Measure copies from this device to each other one, and back."""
    here = context.accelerator.index
    others = [n for n in range(context.gpus) if n != here]
    module = getattr(torch, context.accelerator.kind)
    reachable = getattr(module, "can_device_access_peer", lambda _here, _there: False)
    access = {n: bool(reachable(here, n)) for n in others}
    yield from context.time("peer", cases(here, access, context.quick))


def cases(here: int, access: dict[int, bool], quick: bool) -> Iterator[BenchCase]:
    """All cases.

    Args:
        here: number of the device that is measured.
        access: the others, and whether each can be reached directly.
        quick: only three sizes, to the first of the others.
    """
    for there in list(access)[:1] if quick else access:
        for size in SIZES[:3] if quick else SIZES:
            for op in ("to", "from"):
                yield case(op, here, there, size, direct=access[there])


def case(op: str, here: int, there: int, size: int, *, direct: bool) -> BenchCase:
    """Return a copy of `size` bytes to or from the device `there`."""

    def make(device: str) -> Callable[[], object]:
        other = device if device == "meta" else f"{torch.device(device).type}:{there}"
        own = torch.randint(0, 255, (size,), dtype=torch.uint8, device=device)
        far = torch.randint(0, 255, (size,), dtype=torch.uint8, device=other)
        if op == "to":
            return lambda: far.copy_(own, non_blocking=True)
        return lambda: own.copy_(far, non_blocking=True)

    params: dict[str, Value] = {
        "op": op,
        "here": here,
        "there": there,
        "bytes": size,
        "direct": direct,
    }
    # Without direct access a copy goes through the host and crosses its link twice.
    return BenchCase(
        "peer", params, make, ("hot",), 6, bytes=float(size), link_bytes=float(size), peer=direct
    )
