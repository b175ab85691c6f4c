"""Infinity Fabric between AMD devices: pairs that lack the link which the others have.

Source: AMD, Instinct platforms (MI250, MI300): the devices of a board are joined all to all.
Written to the kernel's files and tested on made-up ones: not seen on a device yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.topology.gather import topology
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_BY = "/sys/class/kfd/kfd/topology"


@check("infinity_fabric", "topology", "Infinity Fabric between AMD devices")
def infinity_fabric(machine: Machine) -> Iterable[Finding]:
    """Say nothing where no pair has it: cards in slots are joined by PCIe."""
    found = topology(machine)
    devices = {a.index for a in found.accelerators if a.vendor == "amd" and not a.integrated}
    if not devices or any(a.vendor == "nvidia" for a in found.accelerators):
        return
    joined = [p for p in found.pairs if p.way == "XGMI"]
    lacking = [p for p in found.pairs if p.way != "XGMI"]
    if not joined:
        return
    values: dict[str, float | int | str | bool | None] = {
        "joined_pairs": len(joined), "pairs": len(found.pairs),
    }  # fmt: skip
    if lacking:
        some = ", ".join(f"{p.a}-{p.b}" for p in lacking[:6]) + (" ..." if len(lacking) > 6 else "")
        yield Finding(
            "infinity_fabric", "warning",
            Words(
                "Some pairs of devices have no Infinity Fabric.",
                "部分设备对之间没有 Infinity Fabric。",
            ),
            Words(
                f"{len(lacking)} of {len(found.pairs)} pairs: {some}.",
                f"{len(found.pairs)} 对中有 {len(lacking)} 对：{some}。",
            ),
            Words(
                "Traffic between them takes PCIe; collectives of all devices go at its pace.",
                "其间流量改走 PCIe；全部设备的集合通信以它为准。",
            ),
            Words(
                "If they are of one board, look at links that are down.",
                "若属同一板卡，请检查断开的链路。",
            ),
            ("amd-smi topology", "amd-smi xgmi"), _BY, None, values,
        )  # fmt: skip
        return
    yield Finding(
        "infinity_fabric", "ok",
        Words("Infinity Fabric joins the devices.", "Infinity Fabric 连接正常。"),
        Words(f"All {len(joined)} pairs.", f"全部 {len(joined)} 对。"), known_by=_BY,
        values=values,
    )  # fmt: skip
