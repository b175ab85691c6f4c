from __future__ import annotations

from software_machines import cpu_only, findings, severities

CARD = "/sys/bus/pci/devices/0000:05:00.0"


def with_card(kind: str, **torch):
    machine = cpu_only()
    machine.folders["/sys/bus/pci/devices"] = ("0000:05:00.0",)
    machine.texts |= {f"{CARD}/class": kind, f"{CARD}/vendor": "0x8086"}
    machine.probes["torch_libraries"] |= torch
    return machine


def test_a_processors_own_graphics_is_left_in_peace() -> None:
    assert findings("intel_xpu", with_card("0x030000")) == []
    assert findings("intel_xpu", cpu_only()) == []


def test_a_device_that_pytorch_sees_is_fine() -> None:
    device = {"index": 0, "name": "Intel Data Center GPU Max 1550", "works": True}
    machine = with_card("0x038000", xpu_build="20250101", device_kind="xpu", devices=[device])
    assert severities("intel_xpu", machine) == ["ok"]


def test_an_accelerator_without_its_build_is_a_note_and_with_it_an_error() -> None:
    assert severities("intel_xpu", with_card("0x038000")) == ["note"]
    assert severities("intel_xpu", with_card("0x038000", xpu_build="20250101")) == ["error"]
