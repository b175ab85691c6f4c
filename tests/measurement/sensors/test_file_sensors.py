"""Sensors that are files of the Linux kernel, on folders made for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuscope.measurement.sensors.cpu_package import open_cpu_package
from gpuscope.measurement.sensors.intel import open_intel


def _zone(root: Path, number: int, name: str, energy: int, limit: int = 1000) -> Path:
    zone = root / f"intel-rapl:{number}"
    zone.mkdir()
    (zone / "name").write_text(name + "\n")
    (zone / "energy_uj").write_text(f"{energy}\n")
    (zone / "max_energy_range_uj").write_text(f"{limit}\n")
    return zone


def test_two_packages_add_up_and_wrap_around(tmp_path: Path) -> None:
    first = _zone(tmp_path, 0, "package-0", 900)
    second = _zone(tmp_path, 1, "package-1", 10)
    _zone(tmp_path, 2, "psys", 5)  # the whole board: counted in the packages already
    sensor = open_cpu_package(0, tmp_path)
    assert sensor.read().energy_j == 0
    (first / "energy_uj").write_text("100")  # 100 to the end of its range, then 100
    (second / "energy_uj").write_text("60")
    assert sensor.read().energy_j == pytest.approx(250e-6)
    assert sensor.info.name == "package-0 + package-1"


def test_a_counter_that_may_not_be_read(tmp_path: Path) -> None:
    zone = _zone(tmp_path, 0, "package-0", 900)
    sensor = open_cpu_package(0, tmp_path)
    (zone / "energy_uj").unlink()
    assert sensor.read().energy_j is None
    assert open_cpu_package(0, tmp_path) is None
    assert open_cpu_package(0, tmp_path / "nothing") is None


def _card(root: Path, driver: str) -> Path:
    hwmon = root / "card0" / "device" / "hwmon" / "hwmon3"
    hwmon.mkdir(parents=True)
    (root / "card0-HDMI-A-1").mkdir()
    (hwmon / "name").write_text(driver)
    (root / "card0" / "device" / "device").write_text("0xe20b\n")
    return hwmon


def test_an_intel_card(tmp_path: Path) -> None:
    hwmon = _card(tmp_path, "xe\n")
    (hwmon / "energy1_input").write_text("2500000")
    (hwmon / "power1_max").write_text("0")
    (hwmon / "temp2_input").write_text("48000")
    clock = tmp_path / "card0" / "device" / "tile0" / "gt0" / "freq0"
    clock.mkdir(parents=True)
    (clock / "act_freq").write_text("2400")
    sensor = open_intel(0, tmp_path)
    reading = sensor.read()
    assert reading.energy_j == 2.5
    assert reading.power_limit_w is None
    assert reading.temperature_c == 48
    assert reading.sm_clock_hz == 2.4e9
    assert reading.power_w is None
    assert open_intel(1, tmp_path) is None


def test_another_vendors_card_is_not_intels(tmp_path: Path) -> None:
    _card(tmp_path, "amdgpu")
    assert open_intel(0, tmp_path) is None
