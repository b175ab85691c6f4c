"""Access control (ACS) of PCIe bridges and the IOMMU: both can send peer traffic through the host.

Source: NVIDIA, NCCL User Guide, "Troubleshooting", "GPU Direct": bridges whose ACS redirects
requests send traffic between devices up to the processor; on bare metal it is switched off, in a
virtual machine it must stay on. Capability bits as `lspci -vvv` names them (PCI Express Base,
"Access Control Services": request redirect, completion redirect).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.topology.gather import topology
from gpuscope.doctor.topology.types import Topology
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_LSPCI = ("lspci", "-vvv", "-D", "-d", "::0604")
_BLOCK = re.compile(r"^(?P<bus>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d) ", re.M)


@check("acs_iommu", "topology", "Bridges and an IOMMU that send peer traffic through the host")
def acs_iommu(machine: Machine) -> Iterable[Finding]:
    """Look where traffic between devices and cards could go through a bridge."""
    found = topology(machine)
    devices = [a for a in found.accelerators if not a.integrated and a.path]
    rdma = [c for c in found.cards if c.rdma and c.path]
    if len(devices) + len(rdma) < 2 or not devices:
        return
    grouped = machine.entries("/sys/kernel/iommu_groups")
    yield from _iommu(machine, bool(grouped), found)
    yield from _acs(machine, found)


def _iommu(machine: Machine, on: bool, found: Topology) -> Iterable[Finding]:
    line = machine.text("/proc/cmdline") or ""
    passes = bool(re.search(r"\biommu(?:\.passthrough)?=(?:pt|1)\b", line)) or _identity(machine)
    if not on:
        yield Finding(
            "acs_iommu", "ok", Words("The IOMMU is not in the way.", "IOMMU 未介入。"),
            Words("No IOMMU groups.", "没有 IOMMU 分组。"),
            known_by="/sys/kernel/iommu_groups", values={"iommu": False},
        )  # fmt: skip
        return
    if passes:
        yield Finding(
            "acs_iommu", "ok", Words("The IOMMU passes devices through.", "IOMMU 为直通模式。"),
            Words("Addresses are not translated.", "不做地址转换。"),
            known_by="/proc/cmdline, /sys/kernel/iommu_groups/*/type", values={"iommu": True},
        )  # fmt: skip
        return
    refused = [p for p in found.pairs if p.peer is False]
    slower = bool(refused) or any(c.rdma for c in found.cards)
    yield Finding(
        "acs_iommu", "warning" if slower else "note",
        Words("The IOMMU translates the devices' addresses.", "IOMMU 在转换设备地址。"),
        Words(
            "It is on and not in pass-through mode"
            + (f"; {len(refused)} pairs of devices have no peer access." if refused else "."),
            "IOMMU 已开启且非直通模式"
            + (f"；{len(refused)} 对设备无法直接互访。" if refused else "。"),
        ),
        Words(
            "Traffic between devices, or from device to network card, then goes through the host, "
            "or gives wrong data on some boards.",
            "设备之间、设备与网卡之间的流量会绕经主机，在某些主板上甚至会出错。",
        ),
        Words(
            "On bare metal: boot with iommu=pt, or switch it off (VT-d, AMD-Vi) in the firmware.",
            "物理机上：用 iommu=pt 启动，或在固件中关闭（VT-d、AMD-Vi）。",
        ),
        ("cat /proc/cmdline   # add: iommu=pt",), "/sys/kernel/iommu_groups, /proc/cmdline",
        None, {"iommu": True, "passthrough": False},
    )  # fmt: skip


def _identity(machine: Machine) -> bool:
    """Whether all groups that can be read are of the kind that translates nothing."""
    kinds = {
        kind.strip()
        for group in machine.entries("/sys/kernel/iommu_groups") or ()
        if (kind := machine.text(f"/sys/kernel/iommu_groups/{group}/type")) is not None
    }
    return bool(kinds) and kinds <= {"identity"}


def redirecting(text: str) -> dict[str, bool]:
    """Return PCI bridges that have ACS: address -> whether it redirects requests.

    Args:
        text: what `lspci -vvv -D` printed.
    """
    found: dict[str, bool] = {}
    starts = [*_BLOCK.finditer(text)]
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        control = re.search(r"ACSCtl:\s*(.+)", text[start.start() : end])
        if control:
            found[start["bus"]] = bool(re.search(r"\b(?:ReqRedir|CmpltRedir)\+", control[1]))
    return found


def _acs(machine: Machine, found: Topology) -> Iterable[Finding]:
    bridges = _between(found)
    if not bridges:
        return
    answer = machine.command(*_LSPCI)
    if answer is None or not answer.ok:
        return
    if "<access denied>" in answer.out and "ACSCtl" not in answer.out:
        yield Finding(
            "acs_iommu", "unknown",
            Words(
                "Access control of the PCIe bridges could not be read.",
                "无法读取 PCIe 桥的 ACS。",
            ),
            Words("lspci shows capabilities to root only.", "lspci 仅向 root 显示这些信息。"),
            commands=("sudo lspci -vvv | grep ACSCtl",), known_by="lspci -vvv",
        )  # fmt: skip
        return
    bad = sorted(bus for bus, on in redirecting(answer.out).items() if on and bus in bridges)
    if not bad or "hypervisor" in (machine.text("/proc/cpuinfo") or ""):
        return  # in a virtual machine it has to stay on
    some = ", ".join(bad[:4]) + (" ..." if len(bad) > 4 else "")
    yield Finding(
        "acs_iommu", "warning",
        Words(
            "PCIe bridges send peer traffic through the processor.",
            "PCIe 桥把点对点流量转给处理器。",
        ),
        Words(
            f"ACS redirects requests on {len(bad)} bridges above devices: {some}.",
            f"设备上方有 {len(bad)} 个桥开启了 ACS 重定向：{some}。",
        ),
        Words(
            "GPUDirect between devices, or device and network card, below one switch loses most "
            "of its rate.",
            "同一交换机下的 GPUDirect（设备之间、设备与网卡之间）将损失大部分带宽。",
        ),
        Words(
            "On bare metal: switch ACS off in the firmware, or for these bridges after each boot.",
            "物理机上：在固件中关闭 ACS，或每次启动后对这些桥关闭。",
        ),
        (f"sudo setpci -v -s {bad[0]} ECAP_ACS+0x6.w=0000",), "lspci -vvv (ACSCtl)",
        None, {"redirecting_bridges": len(bad)},
    )  # fmt: skip


def _between(found: Topology) -> frozenset[str]:
    """Bridges of switches that two or more devices or RDMA cards share a root port with."""
    paths = [a.path for a in found.accelerators if not a.integrated]
    paths += [c.path for c in found.cards if c.rdma]
    roots = [p[1] for p in paths if len(p) > 2]
    return frozenset(
        bus for p in paths if len(p) > 2 and roots.count(p[1]) > 1 for bus in p[1:-1]
    )  # fmt: skip
