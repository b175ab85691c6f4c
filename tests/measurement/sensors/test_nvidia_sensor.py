from __future__ import annotations

import pytest
from sensor_stand_ins import Nvml

from gpuscope.measurement.sensors.nvidia import open_with
from gpuscope.measurement.sensors.types import ProcessUse


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_units_are_si() -> None:
    reading = open_with(Nvml(), 0).read(processes=True)
    assert reading.power_w == pytest.approx(512.25)
    assert reading.energy_j == pytest.approx(12_345.678)
    assert (reading.sm_clock_hz, reading.memory_clock_hz) == (1.98e9, 3.201e9)
    assert (reading.temperature_c, reading.utilisation) == (41.0, 0.99)
    assert (reading.memory_used_bytes, reading.memory_total_bytes) == (7 * 2**30, 141 * 2**30)
    assert reading.power_limit_w == pytest.approx(700)
    assert (reading.pcie_generation, reading.pcie_width) == (5, 16)
    assert reading.processes == (ProcessUse(77, "python", 2**30), ProcessUse(78, "", None))


def test_an_idle_device_is_not_throttled_by_being_idle() -> None:
    reading = open_with(Nvml(), 0).read()
    assert reading.throttle_reasons == ("software power cap", "software thermal slowdown")
    assert reading.throttled_s == pytest.approx({"power": 2.0, "thermal": 4.0})
    assert reading.processes is None  # was not asked


def test_what_is_not_supported_is_none_and_not_asked_again() -> None:
    refused = (
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetViolationStatus",
        "nvmlDeviceGetUtilizationRates",
    )
    nvml = Nvml(refuse=refused)
    sensor = open_with(nvml, 0)
    first, _ = sensor.read(), sensor.read()
    assert first.energy_j is None
    assert first.power_w is None
    assert first.throttled_s is None
    assert first.utilisation is None
    assert first.temperature_c == 41
    assert nvml.calls.count("nvmlDeviceGetPowerUsage") == 1


def test_no_driver_and_no_device() -> None:
    assert open_with(Nvml(driver=False), 0) is None
    nvml = Nvml(devices=1)
    assert open_with(nvml, 1) is None
    assert nvml.opened == 0


def test_close_gives_the_library_back_once() -> None:
    nvml = Nvml()
    sensor = open_with(nvml, 0)
    sensor.close()
    sensor.close()
    assert nvml.opened == 0
    assert sensor.read().power_w is None


@pytest.mark.parametrize(
    ("listed", "index", "uuid"),
    [
        ("1,0", 0, "GPU-111-abc"),
        ("1", 1, None),
        ("GPU-111-abc", 0, "GPU-111-abc"),
        ("GPU-11", 0, "GPU-111-abc"),  # an unambiguous beginning
        ("GPU-", 0, None),  # an ambiguous one
        ("", 0, None),
    ],
)
def test_cuda_visible_devices(monkeypatch, listed, index, uuid) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    sensor = open_with(Nvml(), index)
    assert (sensor.info.uuid if sensor else None) == uuid
    if sensor:
        assert sensor.info.index == index


def test_a_mig_slice_reads_its_own_memory_and_no_power(monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1234")
    sensor = open_with(Nvml(), 0)
    assert sensor.info.slice
    reading = sensor.read()
    assert reading.power_w is None
    assert reading.energy_j is None
    assert reading.utilisation is None
    assert reading.memory_total_bytes == 141 * 2**30
    assert reading.temperature_c == 41


@pytest.mark.gpu
def test_a_real_device() -> None:
    import torch

    from gpuscope.measurement.sensors import open_sensor

    if torch.version.cuda is None:
        pytest.skip("not an NVIDIA build")
    torch.zeros(1, device="cuda")
    sensor = open_sensor(0, "nvidia")
    assert sensor is not None
    reading = sensor.read(processes=True)
    assert sensor.info.name == torch.cuda.get_device_name(0)
    total = torch.cuda.get_device_properties(0).total_memory
    assert reading.memory_total_bytes >= total
    assert 10 < reading.temperature_c < 110
    assert reading.sm_clock_hz > 1e8
    sensor.close()
