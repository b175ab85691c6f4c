"""What collectives and compute take from each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.cost.overlap import (
    BY_COMPUTE,
    BY_MEMORY,
    LINK_REACH,
    UNITS,
    memory_share,
    room_after_s,
    slowdown_of_collective,
    slowdown_of_collectives,
    slowdown_of_compute,
)
from gpuscope.cost.registry import Constants
from gpuscope.cost.types import Kernel
from gpuscope.hardware import Calibration, device
from gpuscope.hardware.calibration import CalibratedValue

H200 = device("h200")
RING = Kernel("collective_all_reduce", "collective", 0, 1e-3, 9e-4, 1.1e-3, read_bytes=3e8,
              lane="link", limiter="link", units=24, sent_bytes=3e8)  # fmt: skip
PRODUCT = Kernel("gemm", "matmul", 1, 1.4e-3, 1.3e-3, 1.5e-3, waves=12.6, limiter="tensor_core")


def test_products_lose_the_units_that_channels_hold() -> None:
    slower = slowdown_of_compute("matmul", "tensor_core", RING, H200)
    assert slower == pytest.approx(1 + UNITS * 24 / 108)
    none = replace(RING, units=0)
    assert slowdown_of_compute("matmul", "tensor_core", none, H200) == 1


def test_streams_lose_the_bandwidth_that_it_takes() -> None:
    """0.3 GB sent in 1 ms, three bytes of memory for each: 0.9 TB/s."""
    used = 3 * 3e8 / 1e-3 / H200.memory_bandwidth_bytes_per_s
    assert memory_share(RING, H200) == pytest.approx(used)
    slower = slowdown_of_compute("pointwise", "memory", RING, H200)
    assert slower == pytest.approx(1 + 1.2 * used / (1 - used))


@pytest.mark.parametrize("limiter", ["launch", "latency", "host", "link"])
def test_what_waits_loses_nothing(limiter: str) -> None:
    assert slowdown_of_compute("pointwise", limiter, RING, H200) == 1  # type: ignore[arg-type]
    assert slowdown_of_collective("pointwise", limiter, RING, H200) == 1  # type: ignore[arg-type]


def test_collectives_are_held_back_too() -> None:
    assert slowdown_of_collective("matmul", "tensor_core", RING, H200) == 1 + BY_COMPUTE
    assert slowdown_of_collective("pointwise", "memory", RING, H200) == 1 + BY_MEMORY
    engine = replace(RING, units=0)
    assert slowdown_of_collective("matmul", "tensor_core", engine, H200) == 1
    assert slowdown_of_collective("collective", "link", RING, H200) == 1


def test_measured_constants_replace_the_defaults() -> None:
    entry = CalibratedValue(0.5, "1", "calibrated", 0.5, 0.5)
    constants = Constants(
        Calibration("x", "x", "same device", "", (("collective.overlap.by_compute", entry),))
    )
    slower = slowdown_of_collective("matmul", "compute", RING, H200, constants)
    assert slower == 1.5


def test_a_link_is_shared_by_those_that_use_it() -> None:
    assert slowdown_of_collectives((), 0.8) == 1
    assert slowdown_of_collectives((0.8,), 0.8) == pytest.approx(1.6 / LINK_REACH)
    assert slowdown_of_collectives((0.1,), 0.1) == 1  # room for both
    assert slowdown_of_collectives((0.8, 0.8), 0.8) > slowdown_of_collectives((0.8,), 0.8)


def test_a_collective_begins_in_the_last_wave() -> None:
    """12.6 waves: after 12 of 13; as recorded, 92 to 93 % into such products."""
    assert room_after_s(PRODUCT, RING, H200) == pytest.approx(1.4e-3 * 12 / 13)
    full = replace(PRODUCT, waves=12.95)  # the last wave leaves fewer than 24 units
    assert room_after_s(full, RING, H200) == full.duration_s
    small = replace(PRODUCT, waves=0.5)
    assert room_after_s(small, RING, H200) == 0
    assert room_after_s(replace(PRODUCT, waves=3.0), RING, H200) == PRODUCT.duration_s
    assert room_after_s(PRODUCT, replace(RING, units=0), H200) == 0
    assert room_after_s(replace(PRODUCT, waves=0.0), RING, H200) == 0


@given(st.integers(0, 132), st.floats(1e-6, 1.0), st.floats(0, 1e12))
def test_slowdowns_are_finite_and_never_gains(units: int, duration_s: float, sent: float) -> None:
    kernel = replace(RING, units=units, duration_s=duration_s, sent_bytes=sent, read_bytes=sent)
    for limiter in ("tensor_core", "memory", "launch"):
        slower = slowdown_of_compute("matmul", limiter, kernel, H200)  # type: ignore[arg-type]
        assert 1 <= slower < 20
