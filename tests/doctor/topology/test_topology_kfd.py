"""Links between AMD devices as the compute driver lists them."""

from __future__ import annotations

from wired_machines import instincts

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.topology import topology
from gpuscope.doctor.topology.kfd import fabric_pairs


def test_joined_devices_are_found_by_their_addresses() -> None:
    assert fabric_pairs(instincts(3)) == {
        frozenset(("0000:05:00.0", "0000:15:00.0")),
        frozenset(("0000:05:00.0", "0000:25:00.0")),
        frozenset(("0000:15:00.0", "0000:25:00.0")),
    }


def test_the_topology_has_them() -> None:
    found = topology(instincts(8))
    assert len(found.accelerators) == 8
    assert {p.way for p in found.pairs} == {"XGMI"}
    assert len(found.pairs) == 28
    assert all(p.peer is None for p in found.pairs), "the driver does not say"


def test_links_to_processors_and_nonsense_are_passed_over() -> None:
    ill = instincts(2)
    base = "/sys/class/kfd/kfd/topology/nodes"
    ill.texts[f"{base}/1/io_links/1/properties"] = "type two\nnode_to\n\n"
    ill.texts[f"{base}/2/io_links/1/properties"] = "type 2\nnode_to 1\n"
    assert fabric_pairs(ill) == frozenset()
    assert fabric_pairs(Recording()) == frozenset()
