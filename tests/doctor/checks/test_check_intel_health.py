"""Intel's own tool, read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from checked import findings, sorts, the
from wired_machines import PCI, device

from gpuscope.doctor.machine import Answer, Recording


def machine(answer: str) -> Recording:
    found = Recording()
    found.folders[PCI] = ("0000:4d:00.0",)
    device(found, "0000:4d:00.0", "0x038000", "0x8086", 0, "32.0 GT/s PCIe", 16)
    found.commands["xpu-smi health -l -j"] = Answer(0, answer)
    return found


def told(*devices: dict[str, Any]) -> str:
    return json.dumps({"device_list": list(devices)})


def gpu(index: int, **parts: str) -> dict[str, Any]:
    described = {
        name: {"status": status, "description": f"{name} is {status}"}
        for name, status in parts.items()
    }
    return {"device_id": index, **described}


def test_healthy_devices_are_one_line() -> None:
    well = told(gpu(0, core_temperature="OK", memory="Unknown"), gpu(1, power="Ok"))
    assert sorts(findings("intel_health", machine(well))) == ["ok"]


def test_parts_that_are_not_well_are_named_with_their_device() -> None:
    ill = told(gpu(0, power="OK"), gpu(1, core_temperature="Critical", memory="Warning"))
    found = findings("intel_health", machine(ill))
    assert sorts(found) == ["error", "warning"]
    assert {f.device for f in found} == {1}
    assert "core temperature" in the(found, "error").title


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"error": "no device"}'])
def test_a_tool_that_says_nothing_useful_is_passed_over(text: str) -> None:
    assert findings("intel_health", machine(text)) == []


def test_machines_of_others_are_not_asked() -> None:
    assert findings("intel_health", Recording()) == []
