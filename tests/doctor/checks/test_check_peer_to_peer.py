"""Pairs of devices that may or may not reach each other's memory."""

from __future__ import annotations

import pytest
from checked import findings, sorts, the
from wired_machines import h200, nvml, peers, server

from gpuscope.doctor.machine import Recording


def test_a_healthy_server_is_told_in_one_line() -> None:
    only = the(findings("peer_to_peer", server()), "ok")
    assert only.values == {"refused_pairs": 0, "pairs": 28, "nvlink_pairs": 28}


@pytest.mark.parametrize(
    "reason", ["chipset_not_supported", "ioh_topology_not_supported", "disabled_by_regkey"]
)
def test_refused_pairs_are_a_fault_with_a_reason(reason: str) -> None:
    devices = [h200(i, nvlinks=[]) for i in range(4)]
    pairs = peers(4, "ok", "not_supported")
    pairs[0]["p2p"]["read"] = reason
    told = the(findings("peer_to_peer", nvml(devices, pairs)), "warning")
    assert told.values == {"refused_pairs": 1, "pairs": 6}
    assert "0-1" in told.found


def test_what_a_consumer_device_does_not_offer_is_no_fault() -> None:
    devices = [h200(i, name="NVIDIA GeForce RTX 4090", nvlinks=[]) for i in range(2)]
    pairs = peers(2, "gpu_not_supported", "not_supported")
    assert sorts(findings("peer_to_peer", nvml(devices, pairs))) == ["note"]


def test_nothing_is_said_of_one_device_or_of_slices_or_without_status() -> None:
    assert findings("peer_to_peer", Recording()) == []
    assert findings("peer_to_peer", nvml([h200()])) == []
    assert findings("peer_to_peer", nvml([h200(0), h200(1)])) == []
    slices = [h200(0, mig_mode=True), h200(1, mig_mode=True)]
    assert findings("peer_to_peer", nvml(slices, peers(2, "not_supported"))) == []
