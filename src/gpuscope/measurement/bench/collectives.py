"""Collectives between this machine's devices (NCCL), or between processes on a CPU (Gloo).

Bandwidths by the definitions of nccl-tests (`collective_calls`). A plain `gpuscope bench` starts
the ranks itself where it sees several devices; under torchrun this process is one of them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope.document.text import Text
from gpuscope.measurement.bench.collective_calls import bandwidths
from gpuscope.measurement.bench.collective_runs import (
    CollectiveRun,
    CollectiveSample,
    arguments,
    read_rows,
    run_ranks,
    under_torchrun,
)
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import LINK, Point, Value, point_of

if TYPE_CHECKING:
    from gpuscope.hardware import Device
    from gpuscope.measurement.bench.context import Context

NAME = "collectives"


def link_bytes_per_s(device: Device | None, ranks: int) -> float | None:
    """What one rank's links to the others carry, one direction, bytes/s; None if not known."""
    if device is None or ranks < 2:
        return None
    from gpuscope.errors import GpuscopeError
    from gpuscope.hardware import parse_target

    try:
        link = parse_target(f"{ranks}x{device.id}").scale_up
    except GpuscopeError:
        return None
    return link.bandwidth_bytes_per_s if link is not None else None


def points(found: CollectiveRun, device: Device | None) -> Iterator[Point]:
    """The points of what the ranks measured."""
    if found.facts:
        environment = dict(found.facts.get("environment", {}))
        facts: dict[str, Value] = {
            k: str(v) for k, v in found.facts.items() if k != "environment" and v is not None
        }
        yield Point(NAME, "environment", {**facts, **environment}, "loop", None, n=0)
    for sample in found.samples:
        yield _beside(sample) if sample.beside else _alone(sample, device)


def _alone(sample: CollectiveSample, device: Device | None) -> Point:
    params: dict[str, Value] = {"ranks": sample.ranks, "bytes": sample.size_bytes}
    if sample.state == "host":  # what issuing it costs: no link has a part in it
        return point_of(NAME, sample.operation, params, "host", sample.seconds)
    median = sorted(sample.seconds)[len(sample.seconds) // 2]
    algorithm, bus = bandwidths(sample.operation, sample.ranks, sample.size_bytes, median)
    rate = link_bytes_per_s(device, sample.ranks)
    least = bus * median / rate if rate else None
    return point_of(
        NAME,
        sample.operation,
        params,
        sample.state,
        sample.seconds,
        bytes=float(sample.size_bytes),
        bound=LINK,
        bound_s=least,
        values={"algorithm_bytes_per_s": algorithm, "bus_bytes_per_s": bus},
    )


def _beside(sample: CollectiveSample) -> Point:
    """A collective beside a matrix product, or that product: what each costs the other."""
    params: dict[str, Value] = {
        "ranks": sample.ranks,
        "bytes": sample.size_bytes,
        "what": sample.beside,
    }
    alone = sample.alone_s or 0.0
    median = sorted(sample.seconds)[len(sample.seconds) // 2]
    values = {"alone_s": alone, "slowdown": median / alone} if alone else {}
    return point_of(
        NAME, f"{sample.operation}_beside_matmul", params, "loop", sample.seconds, values=values
    )


@bench(
    NAME, title=Text("Collectives between devices"), quick_s=20, full_s=60, needs="gpus", order=80
)
def collectives(context: Context) -> Iterator[Point]:
    """Measure as one of torchrun's ranks, or start them here."""
    if any(key[0] == NAME for key in context.done):
        return
    device = "cuda" if context.accelerator.kind == "cuda" else "cpu"
    if under_torchrun():
        found = _as_rank(device, context.quick)
    else:
        context.say(Text("Starting {ranks} ranks …", ranks=context.gpus))
        found = run_ranks(context.gpus, device, quick=context.quick)
    for failure in found.failures:
        where, _, why = failure.partition(": ")
        context.fail(NAME, where.partition(",")[0], {"call": where}, why)
    yield from points(found, context.device)


def _as_rank(device: str, quick: bool) -> CollectiveRun:
    """This process is a rank: all measure, the first one reads what was written."""
    from gpuscope.measurement.bench import collective_worker

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "collectives.jsonl"
        collective_worker.main(arguments(out, device, quick=quick))
        return read_rows(out) if os.environ["RANK"] == "0" else CollectiveRun()
