"""Devices as the probe told them, and how they are named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.nvidia_devices import gpus, is_geforce, nvidia_devices, spans


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2, 5], "0-2, 5"), ([7, 6, 0], "0, 6-7"), ([1, 1, 2], "1-2")],
)
def test_numbers_are_written_in_short(numbers: list[int], text: str) -> None:
    assert spans(numbers) == text


@given(st.sets(st.integers(0, 64), min_size=1))
def test_no_number_is_lost(numbers: set[int]) -> None:
    read: set[int] = set()
    for part in spans(numbers).split(", "):
        first, _, last = part.partition("-")
        read |= set(range(int(first), int(last or first) + 1))
    assert read == numbers


def test_one_and_several() -> None:
    assert gpus([3]) == "GPU 3"
    assert gpus([1, 0]) == "GPUs 0-1"


def test_facts_that_were_not_told_are_none() -> None:
    device = nvidia_devices(nvml([h200(persistence_mode=None)]))[0]
    assert device.get("power", "limit_w") == 700.0
    assert device.get("power", "no_such") is None
    assert device.get("name", "deeper") is None
    assert device.number("name") is None
    assert device.number("ecc", "mode") is None, "a switch is not a number"


def test_lost_devices_are_left_out() -> None:
    assert [d.index for d in nvidia_devices(nvml([{"index": 0, "lost": True}, h200(1)]))] == [1]
    assert nvidia_devices(Recording()) == ()


def test_consumer_devices_are_known_by_name() -> None:
    told = nvidia_devices(nvml([h200(0, name="NVIDIA GeForce RTX 4090"), h200(1)]))
    assert [is_geforce(d) for d in told] == [True, False]
