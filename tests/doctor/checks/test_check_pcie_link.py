"""PCIe links that are narrow, slow under load, or resting."""

from __future__ import annotations

import pytest
from checked import findings, sorts, the
from wired_machines import PCI, device, h200, nvml, server

from gpuscope.doctor.machine import Recording


def link(**changes: int) -> dict[str, int]:
    return {**h200()["pcie"], **changes}


def test_a_healthy_server_is_told_in_one_line() -> None:
    only = the(findings("pcie_link", server()), "ok")
    assert only.values["bytes_per_s"] == pytest.approx(63e9)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_missing_lanes_are_a_fault(width: int) -> None:
    told = the(findings("pcie_link", nvml([h200(0), h200(1, pcie=link(width=width))])), "warning")
    assert told.device == 1
    assert told.values["width"] == width
    assert told.values["bytes_per_s"] == pytest.approx(63e9 * width / 16)


def test_an_idle_device_may_rest() -> None:
    found = findings("pcie_link", nvml([h200(pcie=link(generation=1))]))
    assert sorts(found) == ["ok"]
    assert "raise them under load" in found[0].found


def test_a_busy_device_may_not() -> None:
    busy = h200(pcie=link(generation=3), utilization={"gpu_percent": 97, "memory_percent": 40})
    told = the(findings("pcie_link", nvml([busy])), "warning")
    assert told.values["generation"] == 3


def test_a_slot_of_an_older_generation_is_only_told() -> None:
    found = findings("pcie_link", nvml([h200(pcie=link(generation=4, max_generation=4))]))
    assert sorts(found) == ["note"]
    assert found[0].values == {"device_generation": 5, "slot_generation": 4}


@pytest.mark.parametrize(("count", "expected"), [(0, ["ok"]), (99, ["ok"]), (100, ["note"])])
def test_packets_sent_again_are_told_from_many_on(count: int, expected: list[str]) -> None:
    told = findings("pcie_link", nvml([h200(pcie=link(replay_counter=count))]))
    assert sorts(told) == expected


def test_other_vendors_are_read_from_the_bus() -> None:
    found = Recording()
    found.folders[PCI] = ("0000:03:00.0",)
    found.targets[f"{PCI}/0000:03:00.0"] = (
        "/sys/devices/pci0000:00/0000:00:01.0/0000:02:00.0/0000:03:00.0"
    )
    device(found, "0000:03:00.0", "0x030200", "0x8086", 0, "16.0 GT/s PCIe", 8)
    found.texts[f"{PCI}/0000:03:00.0/max_link_width"] = "16"
    assert the(findings("pcie_link", found), "warning").values["max_width"] == 16


def test_nothing_is_said_where_no_link_is_told() -> None:
    assert findings("pcie_link", Recording()) == []
    unknown = {"generation": None, "width": None, "max_generation": None, "max_width": None}
    assert findings("pcie_link", nvml([h200(pcie=unknown)])) == []


def test_two_consumer_cards_share_the_lanes_of_the_processor() -> None:
    halves = [h200(i, name="NVIDIA GeForce RTX 3090", pcie=link(width=8)) for i in range(2)]
    assert sorts(findings("pcie_link", nvml(halves))) == ["note", "note"]
    assert sorts(findings("pcie_link", nvml(halves[:1]))) == ["warning"]
    quarter = [halves[0], h200(1, name="NVIDIA GeForce RTX 3090", pcie=link(width=4))]
    assert sorts(findings("pcie_link", nvml(quarter))) == ["warning", "note"]
