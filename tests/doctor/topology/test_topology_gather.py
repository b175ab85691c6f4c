"""The topology of machines whose wiring is known."""

from __future__ import annotations

import pytest
from wired_machines import PCI, device, h200, nvml, peers, processors, server

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.topology import topology


def test_a_server_is_read_whole() -> None:
    found = topology(server())
    assert [a.index for a in found.accelerators] == list(range(8))
    assert [a.numa_node for a in found.accelerators] == [0] * 4 + [1] * 4
    assert {p.way for p in found.pairs} == {"NV"}
    assert len(found.pairs) == 28
    assert all(p.peer for p in found.pairs)
    assert len(found.nodes) == 2
    assert found.nodes[1].cpus == frozenset(range(48, 96))
    assert found.nodes[0].memory_bytes == 1056000000 * 1024
    card = found.cards[0]
    assert card.kind == "infiniband"
    assert card.up
    assert card.bytes_per_s == 50e9
    for index in range(8):  # its own card is below the same switch, the next one is not
        near = found.nearest(index)
        assert near is not None
        assert near[0].name == f"mlx5_{index}"
        assert near[1] == "PIX"
    assert found.distances[0, "mlx5_1"] == "NODE"
    assert found.distances[0, "mlx5_7"] == "SYS"


def test_nvlink_rates_follow_from_the_ports_that_are_up() -> None:
    ill = h200()
    for port in ill["nvlinks"][:6]:
        port["active"] = False
    links = topology(nvml([ill])).accelerators[0].nvlinks
    assert links is not None
    assert (links.active, links.ports, links.expected) == (12, 18, 18)
    assert links.down == (0, 1, 2, 3, 4, 5)
    assert links.bytes_per_s == pytest.approx(12 * 25e9)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("NVIDIA H100 PCIe", 12), ("NVIDIA A100-SXM4-80GB", 12), ("NVIDIA H800", 8)],
)
def test_parts_with_fewer_links_are_known(name: str, expected: int) -> None:
    links = topology(nvml([h200(name=name)])).accelerators[0].nvlinks
    assert links is not None
    assert links.expected == expected


def test_no_more_than_the_device_can_is_claimed() -> None:
    card = h200(name="NVIDIA GeForce RTX 3090")
    card["nvlinks"] = card["nvlinks"][:4]
    links = topology(nvml([card])).accelerators[0].nvlinks
    assert links is not None
    assert links.bytes_per_s == pytest.approx(56.25e9, rel=0.01)


def test_without_peer_status_nothing_is_claimed() -> None:
    found = topology(nvml([h200(0), h200(1)]))
    assert found.pairs[0].peer is None


def test_a_refused_peer_says_why() -> None:
    pairs = peers(2, "chipset_not_supported", "not_supported")
    pair = topology(nvml([h200(0), h200(1)], pairs)).pairs[0]
    assert (pair.peer, pair.reason, pair.way) == (False, "chipset_not_supported", "NODE")


def test_an_amd_machine_is_read_from_the_bus_alone() -> None:
    found = Recording()
    up = "/sys/devices/pci0000:60/0000:60:01.1"
    place = f"{up}/0000:61:00.0/0000:62:00.0/0000:63:00.0"
    found.targets[f"{PCI}/0000:63:00.0"] = place
    found.folders[PCI] = ("0000:60:01.1", "0000:61:00.0", "0000:62:00.0", "0000:63:00.0")
    device(found, "0000:63:00.0", "0x120000", "0x1002", 1, "32.0 GT/s PCIe", 16)
    device(found, "0000:61:00.0", "0x060400", "0x1002", 1, "32.0 GT/s PCIe", 8)  # the slot
    device(found, "0000:62:00.0", "0x060400", "0x1002", 1, "32.0 GT/s PCIe", 16)
    only = topology(found).accelerators
    assert len(only) == 1
    assert only[0].vendor == "amd"
    assert only[0].numa_node == 1
    assert only[0].pcie.width == 8, "the slot's link is the way to the host"


def test_graphics_of_the_processor_is_integrated() -> None:
    found = Recording()
    found.folders[PCI] = ("0000:00:02.0",)
    found.targets[f"{PCI}/0000:00:02.0"] = "/sys/devices/pci0000:00/0000:00:02.0"
    found.texts[f"{PCI}/0000:00:02.0/class"] = "0x030000"
    found.texts[f"{PCI}/0000:00:02.0/vendor"] = "0x8086"
    assert topology(found).accelerators[0].integrated


def test_nothing_is_read_where_nothing_is() -> None:
    found = topology(Recording())
    assert found.accelerators == found.cards == found.pairs == found.nodes == ()
    assert found.allowed_cpus is None


def test_the_matrix_places_cards_that_sysfs_does_not_show() -> None:
    found = nvml([h200(0), h200(1)])
    from gpuscope.doctor.machine import Answer

    text = (
        "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tNV18\tPIX\t0-47\t0\t\tN/A\nGPU1\tNV18\t X \tSYS\t48-95\t1\t\tN/A\n"
        "NIC0\tPIX\tSYS\t X \n\nNIC Legend:\n\n  NIC0: mlx5_3\n"
    )
    found.commands["nvidia-smi topo -m"] = Answer(0, text)
    found.folders["/sys/class/infiniband"] = ("mlx5_3",)
    told = topology(found)
    assert told.distances == {(0, "mlx5_3"): "PIX", (1, "mlx5_3"): "SYS"}
    assert told.pairs[0].way == "NV"


def test_allowed_processors_are_those_of_the_process() -> None:
    found = Recording()
    processors(found, ("0-3", "4-7"), allowed="1-2,6")
    assert topology(found).allowed_cpus == frozenset({1, 2, 6})
