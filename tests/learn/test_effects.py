"""The recorded effects: complete, and of the size that the hardware's manuals say."""

from __future__ import annotations

import pytest

from gpuscope.errors import UnknownNameError
from gpuscope.hardware import device
from gpuscope.learn.effects import effect, effects, machine


def test_what_it_was_measured_on() -> None:
    assert machine().device == "NVIDIA H200"
    assert machine().sm_count == device("h200").compute_units


def test_a_bank_conflict_costs_two_cycles_a_way() -> None:
    """Volta and later: a load of 32 words takes one cycle of the banks a way, two as seen here."""
    cycles = {row["stride"]: row["cycles_per_load"] for row in effects("bank_conflict")}
    assert cycles[1] == cycles[0] == cycles[33] == cycles[3]  # odd strides, and one word for all
    for ways in (2, 4, 8, 16, 32):
        assert cycles[ways] - cycles[1] == pytest.approx(2 * (ways - 1), abs=0.1)


def test_divergent_ways_run_one_after_the_other() -> None:
    one = effect("divergence", branches=1)["time_s"]
    for row in effects("divergence"):
        assert row["time_s"] == pytest.approx(one * row["branches"], rel=0.06)


def test_blocks_run_in_waves() -> None:
    held = effects("waves", kernel="hold")
    one = effect("waves", kernel="hold", blocks=264)["time_s"]
    for row in held:
        waves = -(-row["blocks"] // row["slots"])
        assert row["time_s"] == pytest.approx(waves * one, rel=0.16)


def test_a_wider_stride_is_never_faster() -> None:
    times = [row["time_s"] for row in effects("read_stride")]
    assert times == sorted(times)


def test_latencies_stand_in_their_order() -> None:
    shared = effect("latency", memory="shared")["load_s"]
    l2 = effect("latency", bytes=4194304)["load_s"]
    far = effect("latency", bytes=4194304)["cold_load_s"]
    assert shared < l2 < far


def test_nothing_is_faster_than_memory_or_arithmetic_allow() -> None:
    h200 = device("h200")
    for row in (*effects("occupancy"), *effects("transpose")):
        assert row["moved_bytes"] / row["time_s"] < h200.memory_bandwidth_bytes_per_s
    peak = h200.peak_flops_per_s("float32", tensor_core=False)
    assert (
        2 * effect("rate", instruction="fma_f32")["operations"]
        < peak * effect("rate", instruction="fma_f32")["time_s"] * 1.001
    )


def test_unknown_effects_are_refused() -> None:
    with pytest.raises(UnknownNameError):
        effects("levitation")
    with pytest.raises(UnknownNameError):
        effect("divergence", branches=3)
