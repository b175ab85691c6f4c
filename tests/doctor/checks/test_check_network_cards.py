"""Network ports that are down, slow, narrow or far."""

from __future__ import annotations

from checked import findings, sorts, the
from wired_machines import PCI, server

from gpuscope.doctor.machine import Recording

BASE = "/sys/class/infiniband"


def test_a_healthy_server_is_told_in_one_line() -> None:
    only = the(findings("network_cards", server()), "ok")
    assert only.values == {"ports": 8, "bytes_per_s": 8 * 50e9}
    assert "8x InfiniBand 400 Gbit/s" in only.found
    assert "8x PIX" in only.found


def test_a_port_that_is_down_among_others_is_a_fault() -> None:
    ill = server()
    ill.texts[f"{BASE}/mlx5_3/ports/1/state"] = "1: DOWN\n"
    told = the(findings("network_cards", ill), "warning")
    assert told.values == {"down_ports": 1, "ports": 8}
    assert "mlx5_3" in told.found


def test_ports_that_are_all_down_belong_to_no_cluster() -> None:
    idle = server()
    for index in range(8):
        idle.texts[f"{BASE}/mlx5_{index}/ports/1/state"] = "1: DOWN\n"
    assert findings("network_cards", idle) == []


def test_a_port_slower_than_its_like_is_named() -> None:
    ill = server()
    ill.texts[f"{BASE}/mlx5_6/ports/1/rate"] = "200 Gb/sec (4X HDR)\n"
    told = the(findings("network_cards", ill), "warning")
    assert "mlx5_6: 200 Gbit/s; the others 400" in told.found


def test_two_sorts_of_cards_are_no_fault() -> None:
    mixed = server(2)
    mixed.texts[f"{BASE}/mlx5_1/ports/1/rate"] = "100 Gb/sec (4X EDR)\n"
    assert sorts(findings("network_cards", mixed)) == ["ok"]


def test_a_port_behind_too_few_lanes_is_named() -> None:
    ill = server()
    ill.texts[f"{PCI}/0000:14:00.0/current_link_width"] = "8\n"
    told = the(findings("network_cards", ill), "warning")
    assert told.values == {"width": 8, "max_width": 16}


def test_devices_without_a_card_on_their_side_are_told() -> None:
    uneven = server()
    uneven.folders[BASE] = ("mlx5_0", "mlx5_1")
    told = the(findings("network_cards", uneven), "note")
    assert "GPU 4-7" in told.title
    assert told.values == {"far_devices": 4}


def test_plain_ethernet_is_told_and_nothing_else() -> None:
    plain = Recording()
    plain.folders["/sys/class/net"] = ("docker0", "eth0", "lo", "veth12")
    plain.targets["/sys/class/net/eth0/device"] = "/sys/devices/pci0000:00/0000:00:03.0/virtio0"
    plain.texts["/sys/class/net/eth0/operstate"] = "up\n"
    plain.texts["/sys/class/net/eth0/speed"] = "10000\n"
    only = the(findings("network_cards", plain), "ok")
    assert "1x Ethernet 10 Gbit/s" in only.found
    assert findings("network_cards", Recording()) == []
