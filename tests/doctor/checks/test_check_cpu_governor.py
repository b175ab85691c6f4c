"""Clock settings of the host's processors."""

from __future__ import annotations

import pytest
from checked import findings, sorts
from wired_machines import h200, nvml

from gpuscope.doctor.machine import Recording

BASE = "/sys/devices/system/cpu"


def host(governor: str | None, driver: str | None, preference: str | None = None) -> Recording:
    found = nvml([h200()])
    found.texts[f"{BASE}/cpu0/cpufreq/scaling_governor"] = governor
    found.texts[f"{BASE}/cpu0/cpufreq/scaling_driver"] = driver
    found.texts[f"{BASE}/cpu0/cpufreq/energy_performance_preference"] = preference
    return found


@pytest.mark.parametrize(
    ("governor", "driver", "preference", "expected"),
    [
        ("performance\n", "acpi-cpufreq\n", None, ["ok"]),
        ("schedutil\n", "acpi-cpufreq\n", None, ["ok"]),
        ("powersave\n", "acpi-cpufreq\n", None, ["warning"]),
        ("powersave\n", "intel_pstate\n", "balance_performance\n", ["ok"]),
        ("powersave\n", "intel_pstate\n", "power\n", ["note"]),
        (None, None, None, []),
    ],
)
def test_each_setting_has_its_severity(
    governor: str | None, driver: str | None, preference: str | None, expected: list[str]
) -> None:
    assert sorts(findings("cpu_governor", host(governor, driver, preference))) == expected


@pytest.mark.parametrize(
    ("file", "value"), [("intel_pstate/no_turbo", "1"), ("cpufreq/boost", "0")]
)
def test_turbo_that_is_off_is_told(file: str, value: str) -> None:
    found = host("performance\n", "intel_pstate\n")
    found.texts[f"{BASE}/{file}"] = value
    assert sorts(findings("cpu_governor", found)) == ["note"]


def test_a_machine_without_devices_may_save_power() -> None:
    found = host("powersave\n", "acpi-cpufreq\n")
    found.probes.clear()
    assert findings("cpu_governor", found) == []
