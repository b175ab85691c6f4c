"""What this host costs: dispatch by operator, modules, Python, backward, optimizers, waits.

Every figure is wall time of the host, taken without a profiler on tiny tensors; see
`host_timing`. The parts are in `host_*.py`; each part's points are saved when it is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from gpuscope.document.text import Text
from gpuscope.measurement.bench import (
    host_calls,
    host_compiled,
    host_dtensor,
    host_passes,
    host_programs,
    host_python,
    host_recurrent,
    host_sharded,
    host_waits,
)
from gpuscope.measurement.bench.host_timing import HostSample, HostTimer
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point, point_of

if TYPE_CHECKING:
    from gpuscope.measurement.bench.context import Context

Part = Callable[[HostTimer], None]


def parts(quick: bool) -> tuple[tuple[frozenset[str], Part], ...]:
    """The parts of the bench with the families of points that each makes, first things first."""
    counts = (100, 300) if quick else (10, 100, 300)
    repeats = 10 if quick else 25
    return (
        (frozenset({"python"}), host_python.measure_python),
        (frozenset({"op"}), _operators),
        (frozenset({"module"}), host_calls.measure_modules),
        (frozenset({"backward_per_node"}), host_passes.measure_backward),
        (
            frozenset({"optimizer_step", "clip_grad_norm", "zero_grad"}),
            partial(host_passes.measure_optimizers, counts=counts),
        ),
        (frozenset({"program"}), partial(host_programs.measure_programs, repeats=repeats)),
        (frozenset({"sync"}), host_waits.measure_waits),
        (frozenset({"autocast"}), host_calls.measure_autocast),
        (frozenset({"copy"}), host_waits.measure_small_copies),
        (frozenset({"memory"}), host_waits.measure_allocation),
        (frozenset({"recurrent"}), host_recurrent.measure_recurrent),
        (frozenset({"dtensor"}), host_dtensor.measure_dtensor),
        (frozenset({"sharded"}), host_sharded.measure_sharded),
        *(() if quick else ((frozenset({"compiled"}), host_compiled.measure_compiled),)),
    )


def _operators(timer: HostTimer) -> None:
    host_calls.measure_operators(timer)
    host_calls.measure_factories(timer)


def point(name: str, sample: HostSample) -> Point:
    """The point of a sample: its group is the family; counts have no time but a value."""
    params = {"name": sample.name, "variant": sample.variant}
    if sample.unit == "s":
        return point_of(name, sample.group, params, "host", sample.seconds)
    counts = sorted(sample.seconds)
    return Point(
        name,
        sample.group,
        params,
        "host",
        None,
        n=len(counts),
        values={"count": counts[len(counts) // 2]},
    )


def run_parts(
    name: str, chosen: tuple[tuple[frozenset[str], Part], ...], context: Context
) -> Iterator[Point]:
    """Run parts one after the other, those left out that a resumed run has, until time is up."""
    had = {family for bench_name, family, _, _ in context.done if bench_name == name}
    for families, part in chosen:
        if families & had:
            continue
        if time.perf_counter() > context.deadline_s:
            context.left += len(families)
            continue
        timer = HostTimer(context.accelerator.torch_name, 7 if context.quick else 15)
        part(timer)
        for failure in timer.failures:
            where, _, why = failure.partition(": ")
            context.fail(name, where.partition(",")[0], {"call": where}, why)
        yield from (point(name, sample) for sample in timer.samples)


@bench(
    "host",
    title=Text("Host: dispatch, modules, Python, backward, optimizers"),
    quick_s=14,
    full_s=60,
    needs="any",
    order=10,
)
def host(context: Context) -> Iterator[Point]:
    """Measure every part of the host."""
    return run_parts("host", parts(context.quick), context)
