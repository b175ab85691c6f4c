"""Network cards: ports that are down or slower than their like, and how near each device is.

Source of the distances: `nvidia-smi topo -m`, or the PCI tree in /sys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import spans
from gpuscope.doctor.registry import check
from gpuscope.doctor.topology.gather import topology
from gpuscope.doctor.topology.types import WAYS, NetworkCard, Topology, Way
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_BY = "/sys/class/infiniband, /sys/class/net"


@check("network_cards", "topology", "Ports of network cards: up, as fast as their like, near")
def network_cards(machine: Machine) -> Iterable[Finding]:
    """Compare each card with the others of its kind, then place them."""
    found = topology(machine)
    rdma = [c for c in found.cards if c.rdma]
    problems = [*_down(rdma), *_slower(rdma), *_narrow(rdma)]
    yield from problems
    yield from _far(found)
    if not problems:
        yield from _well(found, rdma)


def _gbit(card: NetworkCard) -> str:
    return f"{(card.bytes_per_s or 0) * 8 / 1e9:g} Gbit/s"


def _down(cards: Sequence[NetworkCard]) -> Iterable[Finding]:
    down = [c for c in cards if c.up is False]
    if not down or len(down) == len(cards):
        return  # all of them down: a machine that is not part of a cluster
    names = ", ".join(c.name for c in down)
    yield Finding(
        "network_cards", "warning",
        Words(
            f"{len(down)} of {len(cards)} RDMA ports are down.",
            f"{len(cards)} 个 RDMA 端口中 {len(down)} 个未连接。",
        ),
        Words(f"Down: {names}.", f"未连接：{names}。"),
        Words(
            "If NCCL is to use them, jobs over several machines fail or run on fewer ports.",
            "若 NCCL 要使用它们，多机任务会失败或只用较少端口。",
        ),
        Words(
            "Look at cable, transceiver and the switch's port; or leave them out with NCCL_IB_HCA.",
            "检查线缆、光模块和交换机端口；或用 NCCL_IB_HCA 排除。",
        ),
        ("ibstat", f"export NCCL_IB_HCA=^{','.join(c.name for c in down)}"), _BY, None,
        {"down_ports": len(down), "ports": len(cards)},
    )  # fmt: skip


def _slower(cards: Sequence[NetworkCard]) -> Iterable[Finding]:
    for kind in sorted({c.kind for c in cards}):
        rates = {c.name: c.bytes_per_s for c in cards if c.kind == kind and c.bytes_per_s}
        counted = Counter(rates.values())
        if len(counted) < 2:
            continue
        usual, often = counted.most_common(1)[0]
        slow = sorted(n for n, r in rates.items() if r is not None and r < (usual or 0))
        if often < 3 or not slow:
            continue  # two sorts of cards, not one that lags
        yield Finding(
            "network_cards", "warning",
            Words("A network port is slower than its like.", "有网络端口慢于同类端口。"),
            Words(
                f"{', '.join(slow)}: {min(rates[n] or 0 for n in slow) * 8 / 1e9:g} Gbit/s; the "
                f"others {(usual or 0) * 8 / 1e9:g}.",
                f"{', '.join(slow)}：{min(rates[n] or 0 for n in slow) * 8 / 1e9:g} Gbit/s；"
                f"其余为 {(usual or 0) * 8 / 1e9:g}。",
            ),
            Words(
                "Collectives over machines go at the pace of the slowest port.",
                "跨机集合通信以最慢的端口为准。",
            ),
            Words(
                "Look at cable, transceiver and the rate that the switch negotiated.",
                "检查线缆、光模块以及与交换机协商的速率。",
            ),
            ("ibstat",), _BY, None, {"slow_ports": len(slow)},
        )  # fmt: skip


def _narrow(cards: Sequence[NetworkCard]) -> Iterable[Finding]:
    """A port that could bring more than its PCIe link takes."""
    for card in cards:
        if not card.pcie.narrow or card.pcie.bytes_per_s is None or card.bytes_per_s is None:
            continue
        if card.pcie.bytes_per_s < card.bytes_per_s:
            yield Finding(
                "network_cards", "warning",
                Words(
                    f"The PCIe link of {card.name} is narrower than its port.",
                    f"{card.name} 的 PCIe 链路窄于其端口。",
                ),
                Words(
                    f"{card.pcie.width} of {card.pcie.max_width} lanes: "
                    f"{card.pcie.bytes_per_s / 1e9:.0f} GB/s for a port of "
                    f"{card.bytes_per_s / 1e9:.0f}.",
                    f"{card.pcie.width}/{card.pcie.max_width} 条通道："
                    f"{card.pcie.bytes_per_s / 1e9:.0f} GB/s，端口为 "
                    f"{card.bytes_per_s / 1e9:.0f} GB/s。",
                ),
                Words("The port cannot run at its rate.", "端口达不到其速率。"),
                Words("Seat the card again or try another slot.", "重新插好或换插槽。"),
                (f"sudo lspci -vv -s {card.bus} | grep -E 'LnkCap|LnkSta'",), _BY, None,
                {"width": card.pcie.width, "max_width": card.pcie.max_width},
            )  # fmt: skip


def _far(found: Topology) -> Iterable[Finding]:
    """Devices whose nearest card is farther than that of their neighbours."""
    near = {
        a.index: told[1]
        for a in found.accelerators
        if not a.integrated and (told := found.nearest(a.index)) is not None
    }
    if len(near) < 2:
        return
    best = min(WAYS.index(way) for way in near.values())
    far = sorted(i for i, way in near.items() if way == "SYS" and best < WAYS.index("SYS"))
    if far:
        yield Finding(
            "network_cards", "note",
            Words(
                f"GPU {spans(far)}: no network card on their side of the machine.",
                f"GPU {spans(far)} 所在一侧没有网卡。",
            ),
            Words(
                "The nearest RDMA card hangs on another processor (SYS).",
                "最近的 RDMA 网卡挂在另一处理器下（SYS）。",
            ),
            Words(
                "Their traffic to other machines crosses the link between processors.",
                "其跨机流量要经过处理器互连。",
            ),
            None, ("nvidia-smi topo -m",), "nvidia-smi topo -m, /sys", None,
            {"far_devices": len(far)},
        )  # fmt: skip


def _well(found: Topology, rdma: Sequence[NetworkCard]) -> Iterable[Finding]:
    up = [c for c in rdma if c.up] or [
        c for c in found.cards if not c.rdma and c.up and c.bytes_per_s
    ]
    if not up:
        return
    sorts = Counter((c.kind, _gbit(c)) for c in up)
    kinds = {"infiniband": "InfiniBand", "roce": "RoCE", "efa": "EFA", "ethernet": "Ethernet"}
    said = ", ".join(f"{n}x {kinds.get(k, 'RDMA')} {rate}" for (k, rate), n in sorts.items())
    ways = Counter(
        told[1] for a in found.accelerators if (told := found.nearest(a.index)) is not None
    )
    near_en = f"; nearest to the devices: {_ways(ways)}" if ways else ""
    near_zh = f"；与设备的最近距离：{_ways(ways)}" if ways else ""
    yield Finding(
        "network_cards", "ok", Words("Network ports are up.", "网络端口正常。"),
        Words(f"{said}{near_en}.", f"{said}{near_zh}。"), known_by=_BY,
        values={"ports": len(up), "bytes_per_s": sum(c.bytes_per_s or 0 for c in up)},
    )  # fmt: skip


def _ways(ways: Counter[Way]) -> str:
    return ", ".join(f"{n}x {way}" for way, n in sorted(ways.items()))
