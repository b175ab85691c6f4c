"""Processors: their catalogue, cores, this machine's; never among the devices."""

from __future__ import annotations

import math

import pytest

from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.hardware import device_ids
from gpuscope.hardware.names import is_processor, processor_ids
from gpuscope.hardware.processors import processor
from gpuscope.hardware.this_processor import _seen_as, cache_bytes, cores, vector_bits


def test_none_is_a_device() -> None:
    assert len(processor_ids()) >= 8
    assert not set(processor_ids()) & set(device_ids())
    assert not any(is_processor(name) for name in ("h200", "apple-m4", "8xh200", "this"))
    assert all(is_processor(f"{name}:2") for name in (*processor_ids(), "this-cpu"))


@pytest.mark.parametrize("name", processor_ids())
def test_figures_are_those_of_a_socket(name: str) -> None:
    found = processor(name)
    assert found.sources
    assert found.l2_bytes < found.l3_bytes
    assert found.memory_bytes_per_s < found.cores * found.l3_bytes_per_s
    assert found.l3_bytes_per_s < found.l2_bytes_per_s
    # One busy core clocks no lower than all together.
    assert found.flops_per_s["fp32"] <= found.cores * found.core_flops_per_s["fp32"]


def test_peaks_by_hand() -> None:
    found = processor("aws-graviton3")  # no turbo: two 256-bit FMA pipes at 2.6 GHz, 64 cores
    assert math.isclose(found.core_flops_per_s["fp32"], 2 * 2 * 8 * 2.6e9)
    assert math.isclose(found.flops_per_s["fp32"], 64 * 2 * 2 * 8 * 2.6e9)


def test_fewer_cores_share_nothing_and_reach_less() -> None:
    whole, one = processor("intel-xeon-8592"), processor("intel-xeon-8592:1")
    assert one.cores == 1
    assert one.flops_per_s == one.core_flops_per_s
    assert one.memory_bytes_per_s == one.core_memory_bytes_per_s
    rates = [processor(f"intel-xeon-8592:{n}").memory_bytes_per_s for n in (1, 4, 16, 64)]
    assert rates == sorted(rates)
    assert rates[-1] == whole.memory_bytes_per_s


@pytest.mark.parametrize("name", ["intel-xeon-8592:0", "intel-xeon-8592:65", "intel-xeon-8592:x"])
def test_cores_that_are_not_there(name: str) -> None:
    with pytest.raises(InvalidValueError, match="core"):
        processor(name)


def test_an_unknown_one_lists_the_near() -> None:
    with pytest.raises(UnknownNameError, match="intel-xeon-8592"):
        processor("intel-xeon-8593")


def test_what_was_timed_becomes_this_machines() -> None:
    one = {"flops": 8e10, "l2": 7e10, "l3": 2e10, "memory": 9e9}
    found = _seen_as(one, {**one, "flops": 1.2e11, "memory": 1.1e10}, 1 << 20, 32 << 20)
    assert found.origin == "measured"
    assert found.core_flops_per_s["fp32"] > one["flops"]
    assert math.isclose(found.flops_per_s["fp32"] / found.core_flops_per_s["fp32"], 1.5)
    assert found.memory_bytes_per_s == 1.1e10


def test_what_the_system_says() -> None:
    assert cores() >= 1
    assert vector_bits() in (128, 256, 512)
    assert cache_bytes(9) is None
