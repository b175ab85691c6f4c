"""Power, energy and clocks under steady loads, and whether the device had to slow down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuscope.document.text import Text
from gpuscope.measurement.bench.context import Context
from gpuscope.measurement.bench.harness import is_lost, reason
from gpuscope.measurement.bench.limits import bound
from gpuscope.measurement.bench.power_loads import LOADS, QUICK_LOADS, Load
from gpuscope.measurement.bench.registry import bench
from gpuscope.measurement.bench.types import Point, Value
from gpuscope.measurement.sensors import energy_between

if TYPE_CHECKING:
    from gpuscope.measurement.sensors import Reading

BATCH_S = 0.1
"""Calls are issued in batches of about this length, with a reading in the middle of each."""

WARM_S, WINDOW_S = 0.4, 1.05
"""Before, and while energy is measured: the counter needs a second (see `sensors.energy`)."""

DUTY = ("matmul_bf16", "copy_hbm")
"""Loads that also run for a part of the time."""


@bench("power", title=Text("Power and clocks under load"), quick_s=6, full_s=31, order=90)
def power(context: Context) -> Iterator[Point]:
    """Measure power of steady loads."""
    if context.sensor is None:
        context.fail("power", "power", {}, Text("No sensor: its package or the driver is missing."))
        return
    yield from _point(context, None, 1.0)
    names = QUICK_LOADS if context.quick else tuple(LOADS)
    plan = [(name, 1.0) for name in names]
    if not context.quick:
        plan += [(name, duty) for name in DUTY for duty in (0.25, 0.5, 0.75)]
    for number, (name, duty) in enumerate(plan):
        if time.perf_counter() + WARM_S + WINDOW_S > context.deadline_s:
            context.left += len(plan) - number
            return
        yield from _point(context, name, duty)


def _point(context: Context, name: str | None, duty: float) -> Iterator[Point]:
    params: Mapping[str, Value] = {"load": name or "idle_with_context", "duty": duty}
    if context.is_done("power", "power", params, "steady"):
        return
    try:
        load = LOADS[name](context.accelerator.torch_name) if name else None
        yield _steady(context, params, load, duty)
    except Exception as error:
        if is_lost(error):
            raise
        context.fail("power", "power", params, reason(error))


@dataclass(slots=True)
class _Seen:
    """Readings while the load ran."""

    readings: list[Reading]
    calls: int
    seconds: float


def _steady(context: Context, params: Mapping[str, Value], load: Load | None, duty: float) -> Point:
    batch = _batch(context, load.call, duty) if load else 0
    call = load.call if load else None
    _run(context, call, batch, duty, WARM_S)
    seen = _run(context, call, batch, duty, WINDOW_S)
    readings = seen.readings
    values = _values(readings)
    once_s = seen.seconds / seen.calls if seen.calls else None
    flops = load.flops if load else None
    traffic = load.bytes if load else None
    span = energy_between(readings[0], readings[-1])
    if span is not None:
        values["energy_j"] = span.energy_j
        values["power_w"] = span.average_w
        if seen.calls:
            values["energy_per_call_j"] = span.energy_j / seen.calls
    limit, bound_s = bound(
        context.device, dtype=load.dtype if load else "", flops=flops, traffic=traffic, hot=True
    )
    clocks = [r.sm_clock_hz for r in readings[1:] if r.sm_clock_hz is not None]
    return Point(
        "power",
        "power",
        params,
        "steady",
        once_s,
        n=max(1, seen.calls),
        flops=flops,
        bytes=traffic,
        bound=limit if duty == 1.0 else "",
        bound_s=bound_s if duty == 1.0 else None,
        sm_clock_hz=sum(clocks) / len(clocks) if clocks else None,
        throttled=_reasons(readings),
        values=values,
    )


def _batch(context: Context, call: Callable[[], object], duty: float) -> int:
    """Calls that take about `BATCH_S`."""
    call()
    context.accelerator.synchronize()
    began = time.perf_counter()
    for _ in range(10):
        call()
    context.accelerator.synchronize()
    return max(1, int(duty * BATCH_S / ((time.perf_counter() - began) / 10)))


def _run(
    context: Context, call: Callable[[], object] | None, batch: int, duty: float, seconds: float
) -> _Seen:
    """Run batches for some seconds; read the sensor while each still runs, and at both ends."""
    sensor = context.sensor
    assert sensor is not None
    readings, calls = [sensor.read()], 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        if call is None:
            time.sleep(BATCH_S)
        else:
            for _ in range(batch):
                call()
            calls += batch
        readings.append(sensor.read())
        context.accelerator.synchronize()
        if duty < 1.0:
            time.sleep((1.0 - duty) * BATCH_S)
    took = time.perf_counter() - began
    readings.append(sensor.read())
    return _Seen(readings, calls, took)


def _values(readings: list[Reading]) -> dict[str, float]:
    """Means and extremes of what the device said; what it did not say is left out."""
    inside = readings[1:-1]
    watts = [r.power_w for r in inside if r.power_w is not None]
    clocks = [r.sm_clock_hz for r in inside if r.sm_clock_hz is not None]
    memory = [r.memory_clock_hz for r in inside if r.memory_clock_hz is not None]
    warm = [r.temperature_c for r in inside if r.temperature_c is not None]
    values: dict[str, float] = {}
    if watts:
        values["power_w"] = sum(watts) / len(watts)
    if clocks:
        values["sm_clock_hz_min"] = min(clocks)
    if memory:
        values["memory_clock_hz"] = sum(memory) / len(memory)
    if warm:
        values["temperature_c"] = max(warm)
    limit = readings[-1].power_limit_w
    if limit is not None:
        values["power_limit_w"] = limit
    return values | _throttled_seconds(readings[0], readings[-1])


def _throttled_seconds(first: Reading, last: Reading) -> dict[str, float]:
    if first.throttled_s is None or last.throttled_s is None:
        return {}
    both = first.throttled_s.keys() & last.throttled_s.keys()
    return {f"throttled_{k}_s": last.throttled_s[k] - first.throttled_s[k] for k in sorted(both)}


def _reasons(readings: list[Reading]) -> tuple[str, ...] | None:
    known = [r.throttle_reasons for r in readings[1:-1] if r.throttle_reasons is not None]
    if not known:
        return None
    return tuple(sorted({reason for reasons in known for reason in reasons}))
