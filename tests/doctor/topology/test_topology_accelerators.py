"""Devices of all vendors, and which link counts."""

from __future__ import annotations

import pytest
from wired_machines import PCI, device

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.topology.accelerators import accelerators, catalogue_device
from gpuscope.doctor.topology.smi_matrix import SmiMatrix

BOARD = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:03:00.0"


def board(vendor: str, kind: str, own: tuple[str, int], slot: tuple[str, int]) -> Recording:
    found = Recording(folders={PCI: ("0000:00:01.0", "0000:01:00.0", "0000:03:00.0")})
    found.targets[f"{PCI}/0000:03:00.0"] = BOARD
    device(found, "0000:00:01.0", "0x060400", "0x8086", 0, *slot)
    device(found, "0000:01:00.0", "0x060400", vendor, 0, *slot)
    device(found, "0000:03:00.0", kind, vendor, 0, *own)
    return found


def test_the_slot_counts_on_boards_with_a_switch_of_their_own() -> None:
    """An Arc states 2.5 GT/s x1 for itself; its slot runs at 16 GT/s x16."""
    arc = board("0x8086", "0x030000", ("2.5 GT/s PCIe", 1), ("16.0 GT/s PCIe", 16))
    only = accelerators(arc, SmiMatrix())[0]
    assert (only.pcie.generation, only.pcie.width) == (4, 16)
    assert not only.integrated


@pytest.mark.parametrize(("own", "slot", "width"), [(16, 8, 8), (8, 16, 8), (16, 16, 16)])
def test_on_amd_the_narrower_of_both_counts(own: int, slot: int, width: int) -> None:
    radeon = board("0x1002", "0x030000", ("16.0 GT/s PCIe", own), ("16.0 GT/s PCIe", slot))
    assert accelerators(radeon, SmiMatrix())[0].pcie.width == width


def test_an_instinct_passed_into_a_virtual_machine_is_no_processor_graphics() -> None:
    found = Recording(folders={PCI: ("0000:00:06.0",)})
    found.targets[f"{PCI}/0000:00:06.0"] = "/sys/devices/pci0000:00/0000:00:06.0"
    device(found, "0000:00:06.0", "0x120000", "0x1002", 0, "32.0 GT/s PCIe", 16)
    assert not accelerators(found, SmiMatrix())[0].integrated


def test_names_that_are_not_in_the_catalogue_are_no_error() -> None:
    assert catalogue_device("NVIDIA Graphics Device") is None
    known = catalogue_device("NVIDIA H200")
    assert known is not None
    assert known.id == "nvidia-h200-sxm"
