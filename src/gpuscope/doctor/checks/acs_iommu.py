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
from gpuscope.document.text import Text, plural

_LSPCI = ("lspci", "-vvv", "-D", "-d", "::0604")
_BLOCK = re.compile(r"^(?P<bus>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d) ", re.M)


@check(
    "acs_iommu", "topology", Text("Bridges and an IOMMU that send peer traffic through the host")
)
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
            "acs_iommu",
            "ok",
            Text("The IOMMU is not in the way."),
            Text("No IOMMU groups."),
            known_by="/sys/kernel/iommu_groups",
            values={"iommu": False},
        )
        return
    if passes:
        yield Finding(
            "acs_iommu",
            "ok",
            Text("The IOMMU passes devices through."),
            Text("Addresses are not translated."),
            known_by="/proc/cmdline, /sys/kernel/iommu_groups/*/type",
            values={"iommu": True},
        )
        return
    refused = [p for p in found.pairs if p.peer is False]
    slower = bool(refused) or any(c.rdma for c in found.cards)
    yield Finding(
        "acs_iommu",
        "warning" if slower else "note",
        Text("The IOMMU translates the devices' addresses."),
        plural(
            "It is on and not in pass-through mode; {count} pair of devices has no peer access.",
            "It is on and not in pass-through mode; {count} pairs of devices have no peer access.",
            len(refused),
        )
        if refused
        else Text("It is on and not in pass-through mode."),
        Text(
            "Traffic between devices, or from device to network card, then goes through the host, "
            "or gives wrong data on some boards."
        ),
        Text("On bare metal: boot with iommu=pt, or switch it off (VT-d, AMD-Vi) in the firmware."),
        ("cat /proc/cmdline   # add: iommu=pt",),
        "/sys/kernel/iommu_groups, /proc/cmdline",
        None,
        {"iommu": True, "passthrough": False},
    )


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
            "acs_iommu",
            "unknown",
            Text("Access control of the PCIe bridges could not be read."),
            Text("lspci shows capabilities to root only."),
            commands=("sudo lspci -vvv | grep ACSCtl",),
            known_by="lspci -vvv",
        )
        return
    bad = sorted(bus for bus, on in redirecting(answer.out).items() if on and bus in bridges)
    if not bad or "hypervisor" in (machine.text("/proc/cpuinfo") or ""):
        return  # in a virtual machine it has to stay on
    some = ", ".join(bad[:4]) + (" ..." if len(bad) > 4 else "")
    yield Finding(
        "acs_iommu",
        "warning",
        Text("PCIe bridges send peer traffic through the processor."),
        Text(
            "ACS redirects requests on {bad} bridges above devices: {some}.",
            bad=len(bad),
            some=some,
        ),
        Text(
            "GPUDirect between devices, or device and network card, below one switch loses most of "
            "its rate."
        ),
        Text(
            "On bare metal: switch ACS off in the firmware, or for these bridges after each boot."
        ),
        (f"sudo setpci -v -s {bad[0]} ECAP_ACS+0x6.w=0000",),
        "lspci -vvv (ACSCtl)",
        None,
        {"redirecting_bridges": len(bad)},
    )


def _between(found: Topology) -> frozenset[str]:
    """Bridges of switches that two or more devices or RDMA cards share a root port with."""
    paths = [a.path for a in found.accelerators if not a.integrated]
    paths += [c.path for c in found.cards if c.rdma]
    roots = [p[1] for p in paths if len(p) > 2]
    return frozenset(bus for p in paths if len(p) > 2 and roots.count(p[1]) > 1 for bus in p[1:-1])
