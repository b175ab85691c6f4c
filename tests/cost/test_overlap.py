"""What collectives and compute take from each other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.cost.collective.ways import chosen, group_of, tuning_of
from gpuscope.cost.overlap import (
    Moving,
    memory_share,
    moving_of,
    room_after_s,
    slowdown_of_collective,
    slowdown_of_collectives,
    slowdown_of_compute,
)
from gpuscope.cost.registry import Constants
from gpuscope.cost.types import Kernel
from gpuscope.hardware import Calibration, Distance, calibration_for, device, parse_target
from gpuscope.hardware.calibration import CalibratedValue
from gpuscope.timeline.contention import DeviceOverlap

H200 = device("h200")
CONSTANTS = Constants(calibration_for(H200))
UNITS, MEMORY, BY_COMPUTE, BY_MEMORY, LINK_REACH = (
    CONSTANTS.value(f"collective.overlap.{name}")
    for name in ("units", "memory", "by_compute", "by_memory", "link")
)
RECORDED = Path(__file__).parents[2] / "validation/recordings/h200/overlap-2-two.jsonl"
RING = Kernel(
    "collective_all_reduce",
    "collective",
    0,
    1e-3,
    9e-4,
    1.1e-3,
    read_bytes=3e8,
    lane="link",
    limiter="link",
    units=24,
    sent_bytes=3e8,
)
PRODUCT = Kernel("gemm", "matmul", 1, 1.4e-3, 1.3e-3, 1.5e-3, waves=12.6, limiter="tensor_core")


def test_products_lose_the_units_that_channels_hold() -> None:
    slower = slowdown_of_compute("matmul", "tensor_core", RING, H200, CONSTANTS)
    assert slower == pytest.approx(1 + UNITS * 24 / 108)
    none = replace(RING, units=0)
    assert slowdown_of_compute("matmul", "tensor_core", none, H200, CONSTANTS) == 1


def test_streams_lose_the_bandwidth_that_it_takes() -> None:
    """0.3 GB sent in 1 ms, three bytes of memory for each: 0.9 TB/s."""
    used = 3 * 3e8 / 1e-3 / H200.memory_bandwidth_bytes_per_s
    assert memory_share(RING, H200) == pytest.approx(used)
    slower = slowdown_of_compute("pointwise", "memory", RING, H200, CONSTANTS)
    assert slower == pytest.approx(1 + MEMORY * used / (1 - used))


@pytest.mark.parametrize("limiter", ["launch", "latency", "host", "link"])
def test_what_waits_loses_nothing(limiter: str) -> None:
    assert slowdown_of_compute("pointwise", limiter, RING, H200, CONSTANTS) == 1  # type: ignore[arg-type]
    assert slowdown_of_collective("pointwise", limiter, RING, H200, CONSTANTS) == 1  # type: ignore[arg-type]


def test_collectives_are_held_back_too() -> None:
    assert slowdown_of_collective("matmul", "tensor_core", RING, H200, CONSTANTS) == 1 + BY_COMPUTE
    assert slowdown_of_collective("pointwise", "memory", RING, H200, CONSTANTS) == 1 + BY_MEMORY
    engine = replace(RING, units=0)
    assert slowdown_of_collective("matmul", "tensor_core", engine, H200, CONSTANTS) == 1
    assert slowdown_of_collective("collective", "link", RING, H200, CONSTANTS) == 1


def test_measured_constants_come_first() -> None:
    entry = CalibratedValue(0.5, "1", "calibrated", 0.5, 0.5)
    constants = Constants(
        Calibration("x", "x", Distance.SAME_DEVICE, "", (("collective.overlap.by_compute", entry),))
    )
    slower = slowdown_of_collective("matmul", "compute", RING, H200, constants)
    assert slower == 1.5


def test_a_link_is_shared_by_those_that_use_it() -> None:
    full = Moving(1.0, 0.8)
    assert slowdown_of_collectives((), full, CONSTANTS) == 1
    assert slowdown_of_collectives((full,), full, CONSTANTS) == pytest.approx(
        2
    )  # each alone fills it
    half = Moving(1.0, 0.5)
    assert slowdown_of_collectives((half,), half, CONSTANTS) == pytest.approx(1.0 / LINK_REACH)
    assert (
        slowdown_of_collectives((Moving(1, 0.1),), Moving(1, 0.1), CONSTANTS) == 1
    )  # room for both
    assert slowdown_of_collectives((half, half), half, CONSTANTS) > slowdown_of_collectives(
        (half,), half, CONSTANTS
    )


def test_latencies_are_not_shared() -> None:
    small = Moving(0.3, 0.8)
    assert slowdown_of_collectives((small,), small, CONSTANTS) == pytest.approx(1.3)
    assert slowdown_of_collectives((small,), Moving(0.0, 0.0), CONSTANTS) == 1
    assert slowdown_of_collectives((Moving(0.0, 0.0),), small, CONSTANTS) == 1


def test_how_a_collective_uses_its_link() -> None:
    """0.3 GB in 0.9 of 1 ms: 333 GB/s of 450; LL sends as many flags, and fills it."""
    kernel = replace(RING, moving_s=0.9e-3, protocol="Simple")
    used = moving_of(kernel, 450e9)
    assert used.of_time == pytest.approx(0.9)
    assert used.of_link == pytest.approx(0.3e9 / 0.9e-3 / 450e9)
    assert moving_of(replace(kernel, protocol="LL"), 450e9).of_link == 1
    assert moving_of(kernel, None).of_link == 1
    assert moving_of(replace(kernel, moving_s=0.0), 450e9) == Moving(0.0, 0.0)


SHARES = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(lambda pair: Moving(*pair))


@given(SHARES, st.lists(SHARES, max_size=4))
def test_sharing_is_never_worse_than_one_after_the_other(own: Moving, beside: list[Moving]) -> None:
    slower = slowdown_of_collectives(beside, own, CONSTANTS)
    assert 1 <= slower <= 1 + len(beside) + 1e-9
    assert slowdown_of_collectives([*beside, own], own, CONSTANTS) >= slower - 1e-9


PAIRS = [
    (parts["operations"], parts["bytes"], parts["alone_s"], parts["both_s"])
    for parts in map(json.loads, RECORDED.read_text().splitlines())
    if parts["part"] == "two"
]


@pytest.mark.parametrize(("operations", "size_bytes", "alone_s", "both_s"), PAIRS)
def test_two_at_once_as_recorded(
    operations: list[str], size_bytes: float, alone_s: list[float], both_s: list[float]
) -> None:
    """Two of 64 MiB between two H200s: within 10 %, all four pairs; of 2 MiB within 20 %."""
    overlap = DeviceOverlap.of(H200, calibration_for(H200))
    kernels = [_between_two(operation, size_bytes) for operation in operations]
    said = [overlap.of_collectives(kernels[n], [kernels[1 - n]]) for n in (0, 1)]
    measured = [both / alone for both, alone in zip(both_s, alone_s, strict=True)]
    assert mean(said) == pytest.approx(mean(measured), rel=0.10 if size_bytes > 2**24 else 0.20)


def _between_two(operation: str, size_bytes: float) -> Kernel:
    cluster = parse_target("2xh200")
    tuning = tuning_of(Constants(calibration_for(H200)))
    group = group_of(cluster, 2)
    way = chosen(operation, group, size_bytes, tuning)
    return replace(
        RING,
        name=f"collective_{operation}",
        duration_s=way.time_s,
        moving_s=way.moving_s,
        sent_bytes=way.sent_bytes,
        protocol=way.protocol.name,
        scope="domain",
    )


def test_a_collective_begins_in_the_last_wave() -> None:
    """12.6 waves: after 12 of 13; as recorded, 92 to 93 % into such products."""
    assert room_after_s(PRODUCT, RING, H200) == pytest.approx(1.4e-3 * 12 / 13)
    full = replace(PRODUCT, waves=12.95)  # the last wave leaves fewer than 24 units
    assert room_after_s(full, RING, H200) == full.duration_s
    small = replace(PRODUCT, waves=0.5)
    assert room_after_s(small, RING, H200) == 0
    assert room_after_s(replace(PRODUCT, waves=3.0), RING, H200) == PRODUCT.duration_s
    assert room_after_s(PRODUCT, replace(RING, units=0), H200) == 0
    assert room_after_s(PRODUCT, replace(RING, set_aside=True), H200) == 0
    assert room_after_s(replace(PRODUCT, waves=0.0), RING, H200) == 0


@given(st.integers(0, 132), st.floats(1e-6, 1.0), st.floats(0, 1e12))
def test_slowdowns_are_finite_and_never_gains(units: int, duration_s: float, sent: float) -> None:
    kernel = replace(RING, units=units, duration_s=duration_s, sent_bytes=sent, read_bytes=sent)
    for limiter in ("tensor_core", "memory", "launch"):
        slower = slowdown_of_compute("matmul", limiter, kernel, H200, CONSTANTS)  # type: ignore[arg-type]
        assert 1 <= slower < 20
