"""Whether there is something to compute on."""

from __future__ import annotations

from wired_machines import PCI, device, h200, nvml

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.presence import has_accelerator


def card(kind: str, vendor: str) -> Recording:
    found = Recording(folders={PCI: ("0000:00:02.0",)})
    device(found, "0000:00:02.0", kind, vendor, 0, "Unknown", 0)
    return found


def test_devices_of_each_vendor_count_and_processor_graphics_does_not() -> None:
    assert has_accelerator(nvml([h200()]))
    assert has_accelerator(card("0x030200", "0x10de"))
    assert has_accelerator(card("0x120000", "0x1002"))
    assert has_accelerator(card("0x038000", "0x8086"))
    assert not has_accelerator(card("0x030000", "0x8086"))
    assert not has_accelerator(Recording())
