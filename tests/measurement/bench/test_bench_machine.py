"""Facts of a machine, and what may disturb its figures."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch")

from gpuscope.document.text import render
from gpuscope.measurement.accelerator import Accelerator
from gpuscope.measurement.bench.machine import default_name, facts, notices
from gpuscope.measurement.sensors import ProcessUse, Reading, SensorInfo


class Sensor:
    def __init__(self, *, part: bool = False, **said) -> None:
        self.info = SensorInfo("nvidia", 0, "NVIDIA H200", "GPU-1", "580.1", slice=part)
        self.said = said
        self.asked_for_processes = False

    def read(self, *, processes: bool = False) -> Reading:
        self.asked_for_processes |= processes
        return Reading(0.0, **self.said)

    def close(self) -> None:
        """Nothing to close."""


def said(sensor) -> list[str]:
    found = notices(Accelerator("cpu"), sensor)
    assert all(render(n, "zh") != n for n in found)
    return [str(n) for n in found]


def test_an_idle_machine_has_no_notice() -> None:
    sensor = Sensor(utilisation=0.0, processes=(), throttle_reasons=())
    assert said(sensor) == []
    assert sensor.asked_for_processes
    assert said(Sensor()) == []  # it tells nothing: nothing is made up
    assert said(None) == []


def test_somebody_elses_work_is_named() -> None:
    other = ProcessUse(os.getpid() + 1, "/usr/bin/trainer", 1 << 30)
    (text,) = said(Sensor(processes=(other, ProcessUse(os.getpid(), "python"))))
    assert "trainer" in text
    assert str(other.pid) in text
    (unnamed,) = said(Sensor(processes=(ProcessUse(4242),)))
    assert "(4242)" in unnamed


def test_a_busy_device_without_a_name() -> None:
    (text,) = said(Sensor(utilisation=0.8))
    assert "80 % busy" in text


def test_a_clock_that_is_held_down_before_any_work() -> None:
    (text,) = said(Sensor(throttle_reasons=("hardware thermal slowdown",)))
    assert "hardware thermal slowdown" in text
    assert said(Sensor(throttle_reasons=("application clocks",))) == []  # the owner's choice


def test_a_slice_is_not_held_against_the_whole_device() -> None:
    (text,) = said(Sensor(part=True))
    assert "MIG" in text


def test_facts_are_what_is_known() -> None:
    found = facts(
        Accelerator("cpu"),
        Sensor(power_limit_w=700.0, pcie_generation=5, pcie_width=16, memory_total_bytes=10),
    )
    assert found["driver"] == "580.1"
    assert found["power_limit_w"] == "700"
    assert found["host_link"] == "PCIe 5 x16"
    assert found["memory_bytes"] == "10"
    assert found["host"]
    assert all(found.values())
    assert "driver" not in facts(Accelerator("cpu"), None)


def test_names_are_fit_for_folders() -> None:
    machine = {"device": "NVIDIA H200", "host": "gpu-01.example.org"}
    assert default_name(machine, quick=False) == "bench-nvidia-h200-gpu-01"
    assert default_name({"device": "A/B (x)"}, quick=True) == "bench-a-b-x-quick"
    assert default_name({}, quick=False) == "bench"


def test_devices_of_different_kinds_are_told(monkeypatch) -> None:
    import torch

    pair = ("NVIDIA H200", "NVIDIA T4")
    accelerator = Accelerator("cpu")
    accelerator.kind = "cuda"
    monkeypatch.setattr(Accelerator, "is_gpu", True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda n: pair[n])
    texts = [str(n) for n in notices(accelerator, None)]
    assert any("NVIDIA T4" in t and "--device" in t for t in texts)
    assert any("No sensor" in t for t in texts)
