"""Network cards as the kernel shows them."""

from __future__ import annotations

import pytest
from wired_machines import infiniband

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.topology.network import cards

PLACE = "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0"


def port(name: str, layer: str, state: str, rate: str) -> Recording:
    found = Recording(folders={"/sys/class/infiniband": (name,)})
    infiniband(found, name, PLACE)
    base = f"/sys/class/infiniband/{name}/ports/1"
    found.texts |= {f"{base}/link_layer": layer, f"{base}/state": state, f"{base}/rate": rate}
    return found


@pytest.mark.parametrize(
    ("name", "layer", "kind"),
    [
        ("mlx5_0", "InfiniBand\n", "infiniband"),
        ("mlx5_0", "Ethernet\n", "roce"),
        ("rdmap16s27", "Unspecified\n", "efa"),
        ("hfi1_0", "", "rdma"),
    ],
)
def test_kinds_are_told_apart(name: str, layer: str, kind: str) -> None:
    only = cards(port(name, layer, "4: ACTIVE\n", "200 Gb/sec (4X HDR)\n"))[0]
    assert (only.kind, only.up, only.rdma) == (kind, True, True)
    assert only.bytes_per_s == 25e9
    assert only.bus == "0000:11:00.0"


def test_a_port_that_is_down_has_no_rate() -> None:
    only = cards(port("mlx5_0", "InfiniBand\n", "1: DOWN\n", "10 Gb/sec (4X SDR)\n"))[0]
    assert only.up is False
    assert only.bytes_per_s is None


def test_the_interface_of_an_rdma_card_is_not_listed_twice() -> None:
    found = port("mlx5_0", "Ethernet\n", "4: ACTIVE\n", "100 Gb/sec\n")
    found.folders["/sys/class/net"] = ("docker0", "ens1f0", "ens2", "lo", "wlan9")
    found.targets["/sys/class/net/ens1f0/device"] = PLACE
    found.targets["/sys/class/net/ens2/device"] = PLACE.replace("0000:11:00.0", "0000:12:00.0")
    for name in ("ens1f0", "ens2"):
        found.texts[f"/sys/class/net/{name}/operstate"] = "up\n"
        found.texts[f"/sys/class/net/{name}/speed"] = "25000\n"
    told = cards(found)
    assert [card.name for card in told] == ["mlx5_0", "ens2"]
    assert told[1].bytes_per_s == 3.125e9


@pytest.mark.parametrize("speed", ["-1\n", "", None, "unknown\n"])
def test_an_unknown_speed_is_not_a_rate(speed: str | None) -> None:
    found = Recording(folders={"/sys/class/net": ("eth0",)})
    found.texts = {"/sys/class/net/eth0/operstate": "up\n", "/sys/class/net/eth0/speed": speed}
    only = cards(found)[0]
    assert only.bytes_per_s is None
    assert only.virtual
