from __future__ import annotations

import pytest
from memory_work import dense, on_host, one, run

from gpuscope.hardware import device

MIB = 2**20


def copy(size: int, pinned: bool, down: bool = False, on: str = "h200") -> float:
    here = dense(size, dtype="uint8")
    there = on_host(here, pinned)
    ends = (there, here) if down else (here, there)
    return one("copy_", ends, (ends[0],), on=on).duration_s


def test_pinned_copies_run_at_the_link() -> None:
    """256 MiB took 4.83 ms on an H200: 55 GB/s."""
    assert copy(256 * MIB, pinned=True) == pytest.approx(4.83e-3, rel=0.1)


def test_pageable_copies_are_staged_and_slower() -> None:
    assert copy(256 * MIB, pinned=False) > 2 * copy(256 * MIB, pinned=True)
    assert copy(65536, pinned=False) == pytest.approx(copy(65536, pinned=True), rel=0.3)


def test_lanes_and_bytes() -> None:
    here = dense(1024)
    up = one("_to_copy", (on_host(here),), (here,))
    down = one("_to_copy", (here,), (on_host(here),))
    assert (up.lane, up.written_bytes, up.read_bytes) == ("copy_h2d", 4096, 0)
    assert (down.lane, down.read_bytes, down.written_bytes) == ("copy_d2h", 4096, 0)
    assert up.kind == down.kind == "transfer"


def test_a_cast_on_the_way_is_made_on_the_device() -> None:
    wide = on_host(dense(MIB))
    narrow = dense(MIB, dtype="bfloat16")
    kernels = run("_to_copy", (wide,), (narrow,))
    assert [k.lane for k in kernels] == ["copy_h2d", "compute"]
    assert kernels[0].written_bytes == 4 * MIB


def test_host_to_host_launches_nothing() -> None:
    x = on_host(dense(8))
    assert run("_to_copy", (x,), (x,)) == ()


def test_a_faster_link_is_faster() -> None:
    slow, fast = device("h200"), device("h200")
    fast = fast.replace(host_link_bandwidth_bytes_per_s=4.5e11)
    here = dense(MIB * 64)
    ends = (here, on_host(here, pinned=True))
    assert (
        one("copy_", ends, (here,), on=fast).duration_s
        < 0.5 * one("copy_", ends, (here,), on=slow).duration_s
    )


@pytest.mark.parametrize(
    ("size", "pinned", "down", "measured_s"),
    [
        (1024, True, False, 0.83e-6), (16384, False, False, 1.5e-6),
        (16 * MIB, True, False, 0.305e-3), (1024 * MIB, True, True, 19.4e-3),
        (16 * MIB, False, False, 0.88e-3), (1024 * MIB, False, False, 143e-3),
        (1024 * MIB, False, True, 63e-3),
    ],
)  # fmt: skip
def test_copies_of_the_recorded_h200(
    size: int, pinned: bool, down: bool, measured_s: float
) -> None:
    assert copy(size, pinned, down) == pytest.approx(measured_s, rel=0.15)


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("down", [True, False])
@pytest.mark.parametrize("on", ["h200", "a100", "mi300x", "rtx-4090"])
def test_more_bytes_take_no_less_time_beyond_the_command_s_own(
    pinned: bool, down: bool, on: str
) -> None:
    times = [copy(2**n, pinned, down, on) for n in range(17, 34)]
    assert times == sorted(times)


def test_beyond_the_host_s_cache_staging_is_slower() -> None:
    inside = copy(64 * MIB, pinned=False) - copy(32 * MIB, pinned=False)
    beyond = copy(1024 * MIB, pinned=False) - copy(992 * MIB, pinned=False)
    assert beyond > 1.3 * inside


def test_large_pinned_copies_are_surer_than_short_ones() -> None:
    def width(size: int) -> float:
        here = dense(size, dtype="uint8")
        kernel = one("copy_", (here, on_host(here, True)), (here,))
        return kernel.high_s / kernel.duration_s

    assert 1 < width(1024 * MIB) < 1.1 < width(2**16)
