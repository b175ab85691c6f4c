"""Bridges and an IOMMU on the way between devices."""

from __future__ import annotations

import pytest
from checked import findings, sorts, the
from wired_machines import h200, nvml, peers, server

from gpuscope.doctor.checks.acs_iommu import redirecting
from gpuscope.doctor.machine import Answer, Recording

_ON = "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
_OFF = "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
LSPCI = "lspci -vvv -D -d ::0604"


def bridge(bus: str, control: str) -> str:
    return (
        f"{bus} PCI bridge: Broadcom PEX890xx\n\tCapabilities: [148 v1] Access Control Services\n"
        f"\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+\n\t\tACSCtl:\t{control}\n\n"
    )


def test_bridges_are_told_apart() -> None:
    text = bridge("0000:12:00.0", _ON) + bridge("0000:12:01.0", _OFF) + "0000:13:00.0 3D: x\n"
    assert redirecting(text) == {"0000:12:00.0": True, "0000:12:01.0": False}
    assert redirecting("") == {}


def test_a_healthy_server_is_well() -> None:
    well = server()
    well.commands[LSPCI] = Answer(0, bridge("0000:12:00.0", _OFF))
    assert sorts(findings("acs_iommu", well)) == ["ok"]


def test_a_bridge_above_a_device_that_redirects_is_a_fault() -> None:
    ill = server()
    ill.commands[LSPCI] = Answer(0, bridge("0000:12:00.0", _ON) + bridge("0000:f8:00.0", _ON))
    told = the(findings("acs_iommu", ill), "warning")
    assert told.values == {"redirecting_bridges": 1}, "the bridge of other devices does not count"
    assert "setpci -v -s 0000:12:00.0" in told.commands[0]


def test_in_a_virtual_machine_it_has_to_stay_on() -> None:
    guest = server()
    guest.commands[LSPCI] = Answer(0, bridge("0000:12:00.0", _ON))
    guest.texts["/proc/cpuinfo"] = "flags : fpu vme hypervisor lahf_lm\n"
    assert sorts(findings("acs_iommu", guest)) == ["ok"]


def test_what_only_root_may_see_is_unknown() -> None:
    hidden = server()
    hidden.commands[LSPCI] = Answer(
        0, "0000:12:00.0 PCI bridge: x\n\tCapabilities: <access denied>\n"
    )
    assert "unknown" in sorts(findings("acs_iommu", hidden))


@pytest.mark.parametrize(
    ("line", "kind", "expected"),
    [
        ("quiet", "DMA\n", ["warning"]),
        ("quiet iommu=pt", "DMA\n", ["ok"]),
        ("quiet iommu.passthrough=1", None, ["ok"]),
        ("quiet", "identity\n", ["ok"]),
    ],
)
def test_an_iommu_counts_only_where_it_translates(
    line: str, kind: str | None, expected: list[str]
) -> None:
    found = server()
    found.folders["/sys/kernel/iommu_groups"] = ("0", "1")
    found.texts["/proc/cmdline"] = line
    found.texts["/sys/kernel/iommu_groups/0/type"] = kind
    assert sorts(findings("acs_iommu", found)) == expected


def test_pairs_that_lost_peer_access_are_counted() -> None:
    found = server(4, nics=False)
    found.probes = nvml([h200(i) for i in range(4)], peers(4, "chipset_not_supported")).probes
    found.folders["/sys/kernel/iommu_groups"] = ("0",)
    assert "6 pairs" in the(findings("acs_iommu", found), "warning").found


def test_nothing_is_said_of_a_single_device() -> None:
    assert findings("acs_iommu", Recording()) == []
    assert findings("acs_iommu", server(1, nics=False)) == []
