"""The picture of the wiring: all in it, nothing twice, faults marked."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wired_machines import h200, nvml, peers, server

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.topology import topology_diagram
from gpuscope.document.blocks import Diagram


def drawn(machine: Recording) -> Diagram:
    found = topology_diagram(machine)
    assert found is not None
    return found


@given(count=st.integers(1, 8), nics=st.booleans())
def test_every_box_lies_in_the_picture_and_every_way_has_both_ends(count: int, nics: bool) -> None:
    found = drawn(server(count, nics))
    keys = [node.key for node in found.nodes]
    assert len(keys) == len(set(keys))
    assert sum(node.kind == "device" for node in found.nodes) == count
    assert sum(node.kind == "nic" for node in found.nodes) == (count if nics else 0)
    assert all({link.a, link.b} <= set(keys) for link in found.links)
    for node in found.nodes:
        assert node.width / 2 - 0.001 <= node.x <= 1.001 - node.width / 2
        assert node.height / 2 <= node.y <= 1 - node.height / 2
    rows: dict[float, list[tuple[float, float]]] = {}
    for node in found.nodes:
        rows.setdefault(node.y, []).append((node.x - node.width / 2, node.x + node.width / 2))
    for spans in rows.values():
        spans.sort()
        ends = itertools.pairwise(spans)
        assert all(a[1] <= b[0] + 0.001 for a, b in ends), "boxes of a row do not overlap"


def test_a_healthy_server_has_no_mark_and_says_what_is_usual() -> None:
    found = drawn(server())
    assert not any(link.narrowest for link in found.links)
    assert found.note is not None
    assert "PCIe 5.0 x16 (63 GB/s)" in found.note
    assert "18 ports a device (450 GB/s)" in found.note


def test_faults_are_marked_with_what_is_left() -> None:
    ill = server()
    devices = ill.probes["nvml"]["devices"]  # type: ignore[index]
    devices[2]["pcie"]["width"] = 4
    for port in devices[6]["nvlinks"][:9]:
        port["active"] = False
    marked = [link for link in drawn(ill).links if link.narrowest]
    assert {link.b if link.b != "nvswitch" else link.a for link in marked} == {"nvidia2", "nvidia6"}
    assert {link.label for link in marked if link.label} == {"x4/x16", "NVLink x9/18"}


def test_two_devices_have_words_on_their_ways() -> None:
    found = drawn(server(2, nics=False))
    told = {link.label: link.limit_bytes_per_s for link in found.links if link.label}
    assert told["PCIe 5.0 x16"] == pytest.approx(63e9)
    assert told["NVLink x18"] == pytest.approx(450e9)


def test_bridged_devices_are_joined_directly() -> None:
    cards = [h200(i, name="NVIDIA A100-PCIE-40GB") for i in range(2)]
    for card in cards:
        card["nvlinks"] = [{**port, "remote_type": "gpu"} for port in card["nvlinks"][:12]]
    found = drawn(nvml(cards, peers(2)))
    joined = [link for link in found.links if {link.a, link.b} == {"nvidia0", "nvidia1"}]
    assert len(joined) == 1
    assert all(node.key != "nvswitch" for node in found.nodes)


def test_there_is_no_picture_without_devices() -> None:
    assert topology_diagram(Recording()) is None
