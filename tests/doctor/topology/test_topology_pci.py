"""Addresses, links and distances on the PCI bus."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wired_machines import PCI, device

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.topology.pci import link, normal_bus, numa_node, steps, way
from gpuscope.doctor.topology.types import PcieLink, pcie_bytes_per_s


@pytest.mark.parametrize("bus", ["00000000:18:00.0", "18:00.0", "0000:18:00.0", " 0000:18:00.0\n"])
def test_addresses_are_written_as_the_kernel_writes_them(bus: str) -> None:
    assert normal_bus(bus) == "0000:18:00.0"


def test_a_link_is_read_with_what_it_could() -> None:
    found = Recording()
    device(found, "0000:18:00.0", "0x030200", "0x10de", -1, "16.0 GT/s PCIe", 8)
    found.texts[f"{PCI}/0000:18:00.0/max_link_speed"] = "32.0 GT/s PCIe"
    found.texts[f"{PCI}/0000:18:00.0/max_link_width"] = "16"
    told = link(found, "0000:18:00.0")
    assert told == PcieLink(4, 8, 5, 16)
    assert told.narrow
    assert told.slow
    assert numa_node(found, "0000:18:00.0") is None, "-1 stands for: not known"


@pytest.mark.parametrize("speed", ["Unknown", "", "Unknown speed"])
def test_a_virtual_port_has_no_link(speed: str) -> None:
    found = Recording()
    device(found, "0000:18:00.0", "0x030200", "0x10de", 0, speed, 0)
    found.texts[f"{PCI}/0000:18:00.0/max_link_width"] = "255"
    told = link(found, "0000:18:00.0")
    assert told == PcieLink()
    assert not told.narrow
    assert not told.slow
    assert told.bytes_per_s is None


ROOT = "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0"


@pytest.mark.parametrize(
    ("a", "b", "nodes", "expected"),
    [
        (f"{ROOT}/0000:12:00.0/0000:13:00.0", f"{ROOT}/0000:12:01.0/0000:14:00.0", (0, 0), "PIX"),
        (
            f"{ROOT}/0000:12:00.0/0000:13:00.0/0000:14:00.0/0000:15:00.0",
            f"{ROOT}/0000:12:01.0/0000:16:00.0",
            (0, 0),
            "PXB",
        ),
        (
            "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0",
            "/sys/devices/pci0000:10/0000:10:02.0/0000:12:00.0",
            (0, 0),
            "PHB",
        ),
        (f"{ROOT}/0000:13:00.0", "/sys/devices/pci0000:20/0000:21:00.0", (0, 0), "NODE"),
        (f"{ROOT}/0000:13:00.0", "/sys/devices/pci0000:20/0000:21:00.0", (0, 1), "SYS"),
        (f"{ROOT}/0000:13:00.0", "/sys/devices/pci0000:20/0000:21:00.0", (0, None), None),
        ("", f"{ROOT}/0000:13:00.0", (0, 0), None),
    ],
)
def test_the_way_between_two_devices(
    a: str, b: str, nodes: tuple[int | None, int | None], expected: str | None
) -> None:
    assert way(steps(a), steps(b), *nodes) == expected
    assert way(steps(b), steps(a), *reversed(nodes)) == expected


@given(st.integers(3, 6), st.sampled_from([1, 2, 4, 8, 16]))
def test_rates_grow_with_lanes_and_generations(generation: int, width: int) -> None:
    rate = pcie_bytes_per_s(generation, width)
    assert rate is not None
    assert pcie_bytes_per_s(generation, 16) == pytest.approx(rate * 16 / width)
    if generation < 6:
        after = pcie_bytes_per_s(generation + 1, width)
        assert after is not None
        assert 1.8 < after / rate < 2.2


def test_a_generation_without_figure_has_no_rate() -> None:
    assert pcie_bytes_per_s(1, 16) is None
    assert pcie_bytes_per_s(None, 16) is None
