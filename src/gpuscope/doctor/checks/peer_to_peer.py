"""Whether devices reach each other's memory without the host.

Source: NVIDIA, NVML API Reference Guide (nvmlDeviceGetP2PStatus and its reasons).
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import gpus, is_geforce, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.topology.gather import topology
from gpuscope.doctor.topology.types import Pair
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_REASONS = {
    "chipset_not_supported": Words("the chipset does not allow it", "芯片组不支持"),
    "gpu_not_supported": Words("the device does not offer it", "设备不提供"),
    "ioh_topology_not_supported": Words("the way between them does not allow it", "互连路径不支持"),
    "disabled_by_regkey": Words("a driver setting forbids it", "被驱动设置禁用"),
    "not_supported": Words("it is not supported here", "此处不支持"),
}
_BY = "NVML: nvmlDeviceGetP2PStatus (nvidia-smi topo -p2p r)"


@check("peer_to_peer", "topology", "Whether devices reach each other's memory directly")
def peer_to_peer(machine: Machine) -> Iterable[Finding]:
    """Look at each pair of NVIDIA devices."""
    devices = nvidia_devices(machine)
    if len(devices) < 2 or any(d.get("mig_mode") for d in devices):
        return
    pairs = [p for p in topology(machine).pairs if p.peer is not None]
    bad = [p for p in pairs if not p.peer]
    if not pairs:
        return
    if not bad:
        yield _well(pairs)
        return
    consumer = all(is_geforce(d) for d in devices) and all(
        p.reason in ("gpu_not_supported", "not_supported", "chipset_not_supported") for p in bad
    )
    yield _bad(bad, len(pairs), consumer)


def _bad(bad: list[Pair], count: int, consumer: bool) -> Finding:
    reasons = [_REASONS[r] for r in sorted({p.reason for p in bad}) if r in _REASONS]
    some = ", ".join(f"{p.a}-{p.b}" for p in bad[:6]) + (" ..." if len(bad) > 6 else "")
    en, zh = ", ".join(r.en for r in reasons), "，".join(r.zh for r in reasons)
    fix = Words(
        "Compare with 'nvidia-smi topo -p2p r'. In a virtual machine or with the IOMMU on, peer "
        "access may be off: see the check acs_iommu. NCCL then goes through the host's memory.",
        "可用 nvidia-smi topo -p2p r 核对。虚拟机中或开启 IOMMU 时可能被禁用：见 acs_iommu。"
        "NCCL 将改走主机内存。",
    )  # fmt: skip
    return Finding(
        "peer_to_peer", "note" if consumer else "warning",
        Words("Devices do not reach each other's memory.", "设备之间不能直接访问显存。"),
        Words(
            f"{len(bad)} of {count} pairs ({some}): {en}.",
            f"{count} 对中有 {len(bad)} 对（{some}）：{zh}。",
        ),
        Words(
            "Copies and collectives between them take the way through the host's memory, twice "
            "the traffic and a fraction of the rate.",
            "设备间的拷贝与集合通信要绕经主机内存：流量加倍，速率大降。",
        ),
        None if consumer else fix, ("nvidia-smi topo -p2p r",), _BY, None,
        {"refused_pairs": len(bad), "pairs": count},
    )  # fmt: skip


def _well(pairs: list[Pair]) -> Finding:
    names = gpus({p.a for p in pairs} | {p.b for p in pairs})
    over = sum(p.way == "NV" for p in pairs)
    count = len(pairs)
    en = "1 pair" if count == 1 else f"all {count} pairs"
    zh = "1 对" if count == 1 else f"全部 {count} 对"
    if over:
        en += ", over NVLink" if over == count else f", {over} over NVLink"
        zh += "，经 NVLink" if over == count else f"，其中 {over} 对经 NVLink"
    return Finding(
        "peer_to_peer", "ok",
        Words("Devices reach each other's memory.", "设备之间可直接访问显存。"),
        Words(f"{names.en}: {en}.", f"{names.zh}：{zh}。"), known_by=_BY,
        values={"refused_pairs": 0, "pairs": len(pairs), "nvlink_pairs": over},
    )  # fmt: skip
