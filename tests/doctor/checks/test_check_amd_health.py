"""AMD's own tools, read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from checked import findings, sorts, the
from wired_machines import PCI, device

from gpuscope.doctor.machine import Answer, Recording


def gpu(index: int = 0, hotspot: Any = 45, memory: Any = 40, **changes: Any) -> dict[str, Any]:
    def degrees(value: Any) -> Any:
        return value if value == "N/A" else {"value": value, "unit": "C"}

    return {
        "gpu": index,
        "temperature": {"edge": "N/A", "hotspot": degrees(hotspot), "mem": degrees(memory)},
        "power": {"throttle_status": "UNTHROTTLED"},
        "ecc": {"total_correctable_count": 0, "total_uncorrectable_count": 0},
        **changes,
    }


def machine(*gpus: dict[str, Any], wrapped: bool = False, static: Any = None) -> Recording:
    found = Recording()
    found.folders[PCI] = ("0000:63:00.0",)
    device(found, "0000:63:00.0", "0x120000", "0x1002", 0, "32.0 GT/s PCIe", 16)
    told: Any = {"gpu_data": list(gpus)} if wrapped else list(gpus)
    found.commands["amd-smi metric --json"] = Answer(0, json.dumps(told))
    if static is not None:
        found.commands["amd-smi static --json"] = Answer(0, json.dumps(static))
    return found


@pytest.mark.parametrize("wrapped", [False, True])
def test_healthy_devices_are_one_line(wrapped: bool) -> None:
    only = the(findings("amd_health", machine(gpu(0), gpu(1, 52), wrapped=wrapped)), "ok")
    assert only.values == {"devices": 2, "hottest_c": 52.0}


def test_heat_counts_against_the_limit_that_the_device_states() -> None:
    static = [{"gpu": 0, "limit": {"slowdown_hotspot_temperature": {"value": 90, "unit": "C"}}}]
    warm = gpu(0, hotspot=88)
    assert sorts(findings("amd_health", machine(warm))) == ["ok"]
    told = the(findings("amd_health", machine(warm, static=static)), "warning")
    assert told.values == {"temperature_c": 88.0, "limit_c": 90.0}


def test_uncorrectable_errors_are_an_error() -> None:
    ill = gpu(3, ecc={"total_uncorrectable_count": 2})
    assert the(findings("amd_health", machine(ill)), "error").device == 3


def test_throttling_is_a_note() -> None:
    held = gpu(0, power={"throttle_status": "THROTTLED"})
    assert sorts(findings("amd_health", machine(held))) == ["note"]


def test_what_is_not_supported_is_no_fault() -> None:
    bare = gpu(0, "N/A", "N/A", ecc="N/A", power="N/A")
    assert sorts(findings("amd_health", machine(bare))) == ["ok"]


def test_the_older_tool_is_read_where_the_newer_is_missing() -> None:
    found = machine()
    found.commands["amd-smi metric --json"] = None
    told = {"card0": {"Temperature (Sensor junction) (C)": "99.0"}, "system": {"Driver": "x"}}
    found.commands["rocm-smi --showallinfo --json"] = Answer(0, json.dumps(told))
    assert sorts(findings("amd_health", found)) == ["warning"]


@pytest.mark.parametrize("text", ["", "no json", "[1, 2]", '"text"', "{}"])
def test_a_tool_that_says_nothing_useful_is_passed_over(text: str) -> None:
    found = machine()
    found.commands["amd-smi metric --json"] = Answer(0, text)
    found.commands["rocm-smi --showallinfo --json"] = Answer(0, text)
    assert findings("amd_health", found) == []


def test_machines_of_others_are_not_asked() -> None:
    assert findings("amd_health", Recording()) == []
