from __future__ import annotations

import time

import pytest
import torch

from gpuscope.doctor.probes import deep_sustained
from gpuscope.doctor.probes.deep_sustained import Watcher, load, thinned
from gpuscope.measurement.accelerator import Accelerator
from gpuscope.measurement.sensors import Reading, Replay


def test_the_load_counts_its_work_and_finds_nothing_different() -> None:
    a = torch.randn(64, 64)
    found = load(lambda: a @ a, lambda: None, seconds=0.6, flops=2.0 * 64**3)
    assert found["differed"] == 0
    assert found["compared"] == len(found["windows"]) >= 2
    total = sum(
        rate * (at - before)
        for (at, rate), before in zip(
            found["windows"], [0.0, *(at for at, _ in found["windows"])], strict=False
        )
    )
    assert total == pytest.approx(found["products"] * 2.0 * 64**3, rel=0.05)


def test_a_result_that_changes_is_counted() -> None:
    a = torch.randn(16, 16)
    ends = time.perf_counter() + 0.3

    def multiply() -> torch.Tensor:
        time.sleep(0.01)
        out = a @ a
        if time.perf_counter() > ends:
            out[0, 0] += 1
        return out

    found = load(multiply, lambda: None, seconds=0.8, flops=1.0)
    assert 0 < found["differed"] < found["compared"]


def test_a_device_is_loaded_with_its_own_format() -> None:
    found = deep_sustained.heated(Accelerator("cpu"), seconds=0.3, side=64)
    assert found["dtype"] == "bf16"
    assert found["side"] == 64
    assert found["products"] > 0


def test_windows_become_seconds_and_work_is_kept() -> None:
    windows = [(0.25 * n, 100.0 if n % 2 else 200.0) for n in range(1, 41)]
    found = thinned(windows)
    assert [at for at, _ in found] == [float(n) for n in range(1, 11)]
    assert all(rate == pytest.approx(150.0) for _, rate in found)
    assert thinned([]) == []


def test_the_sensors_are_read_while_work_goes_on() -> None:
    readings = [
        Reading(
            time.perf_counter(),
            power_w=600.0 + n,
            sm_clock_hz=1.5e9,
            temperature_c=50.0,
            throttle_reasons=("software power cap",),
        )
        for n in range(50)
    ]
    with Watcher({3: Replay(readings)}, every_s=0.01) as watcher:
        time.sleep(0.2)
    seen = watcher.readings[3]
    assert len(seen) >= 3
    assert seen[0]["reasons"] == ["software power cap"]
    assert seen[0]["power_w"] >= 600.0
    count = len(seen)
    time.sleep(0.05)
    assert len(watcher.readings[3]) == count  # it stopped
