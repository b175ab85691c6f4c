"""NVLink ports that are down, errors on them, a fabric that is not set up."""

from __future__ import annotations

import pytest
from checked import findings, sorts, the
from wired_machines import h200, nvml, server

from gpuscope.doctor.machine import Recording


def test_a_healthy_server_is_told_in_one_line() -> None:
    only = the(findings("nvlink", server()), "ok")
    assert only.values == {"active_links": 18, "bytes_per_s": pytest.approx(450e9)}


def test_ports_that_are_down_are_named_with_what_they_cost() -> None:
    ill = server()
    for port in ill.probes["nvml"]["devices"][5]["nvlinks"][3:5]:  # type: ignore[index]
        port["active"] = False
    found = findings("nvlink", ill)
    told = the(found, "warning")
    assert told.device == 5
    assert told.values == {"active_links": 16, "expected_links": 18}
    assert "3-4" in told.found
    assert "400 GB/s each way instead of 450" in told.found


def test_all_ports_down_among_several_devices_is_a_fault() -> None:
    devices = [h200(0), h200(1)]
    for device in devices:
        for port in device["nvlinks"]:
            port["active"] = False
    assert sorts(findings("nvlink", nvml(devices))) == ["warning", "warning"]


def test_a_part_with_fewer_ports_than_the_catalogue_says_is_no_fault() -> None:
    cut = [h200(i, nvlinks=h200(i)["nvlinks"][:12]) for i in range(2)]
    assert sorts(findings("nvlink", nvml(cut))) == ["ok"]
    uneven = [cut[0], h200(1)]
    told = the(findings("nvlink", nvml(uneven)), "warning")
    assert told.device == 0


def test_a_single_device_needs_no_link() -> None:
    alone = h200()
    for port in alone["nvlinks"]:
        port["active"] = False
    assert findings("nvlink", nvml([alone])) == []


def test_a_card_without_its_bridge_is_as_it_should_be() -> None:
    cards = [h200(i, name="NVIDIA A100-PCIE-40GB") for i in range(2)]
    for card in cards:
        card["nvlinks"] = card["nvlinks"][:12]
        for port in card["nvlinks"]:
            port["active"] = False
    assert findings("nvlink", nvml(cards)) == []


def test_errors_on_links_are_counted() -> None:
    noisy = h200()
    noisy["nvlinks"][2]["errors"] = {"replay": 7, "recovery": 1, "crc_flit": 900, "crc_data": None}
    told = the(findings("nvlink", nvml([noisy, h200(1)])), "note")
    assert told.device == 0
    assert told.values["replay_errors"] == 7
    assert told.values["recovery_errors"] == 1


def test_a_few_checksum_errors_are_normal() -> None:
    noisy = h200()
    noisy["nvlinks"][2]["errors"] = {"replay": 0, "recovery": 0, "crc_flit": 12, "crc_data": 0}
    assert sorts(findings("nvlink", nvml([noisy]))) == ["ok"]


@pytest.mark.parametrize("state", ["not_started", "in_progress"])
def test_a_fabric_that_is_not_set_up_stops_cuda(state: str) -> None:
    ill = nvml([h200(i, fabric={"state": state, "status": 0, "health": None}) for i in range(2)])
    told = the(findings("nvlink", ill), "error")
    assert any("fabricmanager" in command for command in told.commands)


def test_a_fabric_state_is_no_fault_where_cuda_works() -> None:
    well = nvml([h200(0, fabric={"state": "not_started", "status": 0, "health": None})])
    well.probes["torch_libraries"] = {"installed": True, "error": None, "available": True}
    assert sorts(findings("nvlink", well)) == ["ok"]


def test_an_unhealthy_fabric_is_told() -> None:
    ill = nvml([h200(0, fabric={"state": "completed", "status": 0, "health": "unhealthy"})])
    assert the(findings("nvlink", ill), "warning").device == 0


def test_nothing_is_said_where_nothing_is() -> None:
    assert findings("nvlink", Recording()) == []
    assert findings("nvlink", nvml([h200(nvlinks=[])])) == []
    assert findings("nvlink", nvml([h200(mig_mode=True)])) == []
