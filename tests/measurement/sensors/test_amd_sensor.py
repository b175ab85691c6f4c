from __future__ import annotations

import pytest
from sensor_stand_ins import AmdSmi, AmdSmiException

from gpuscope.measurement.sensors.amd import VARIABLES, open_with
from gpuscope.measurement.sensors.types import ProcessUse


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_units_are_si() -> None:
    sensor = open_with(AmdSmi(), 0)
    reading = sensor.read(processes=True)
    assert sensor.info.name == "AMD Instinct MI300X"
    assert reading.power_w == 250
    assert reading.energy_j == pytest.approx(15.3)
    assert reading.sm_clock_hz == 2.1e9
    assert reading.temperature_c == 55
    assert reading.utilisation == pytest.approx(0.87)
    assert reading.memory_used_bytes == 300 * 2**20
    assert reading.power_limit_w == 750
    assert reading.processes == (ProcessUse(5, "train", 4096),)


def test_not_available_is_none() -> None:
    absent = {
        "amdsmi_get_power_info": {"current_socket_power": "N/A", "average_socket_power": "N/A"},
        "amdsmi_get_energy_count": AmdSmiException,
        "amdsmi_get_gpu_activity": {"gfx_activity": "N/A"},
        "amdsmi_get_gpu_vram_usage": "N/A",
        "amdsmi_get_temp_metric": "N/A",
    }
    reading = open_with(AmdSmi(**absent), 0).read()
    assert (reading.power_w, reading.energy_j, reading.utilisation) == (None, None, None)
    assert (reading.memory_used_bytes, reading.temperature_c) == (None, None)


def test_thousandths_of_a_degree_and_older_names() -> None:
    older = {
        "amdsmi_get_temp_metric": 61_000,
        "amdsmi_get_clock_info": {"cur_clk": 1700},
        "amdsmi_get_energy_count": {"power": 2_000_000, "counter_resolution": 15.259},
        "amdsmi_get_power_info": {"average_socket_power": 90},
    }
    reading = open_with(AmdSmi(**older), 0).read()
    assert reading.temperature_c == 61
    assert reading.sm_clock_hz == 1.7e9
    assert reading.energy_j == pytest.approx(30.518)
    assert reading.power_w == 90


def test_no_driver_and_no_device(monkeypatch) -> None:
    assert open_with(AmdSmi(amdsmi_init=None), 0) is None
    smi = AmdSmi()
    assert open_with(smi, 2) is None
    assert not smi.open
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    assert open_with(AmdSmi(), 0) is not None
    assert open_with(AmdSmi(), 1) is None
