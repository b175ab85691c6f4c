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
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text

_BY = "/sys/class/infiniband, /sys/class/net"


@check("network_cards", "topology", Text("Ports of network cards: up, as fast as their like, near"))
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
        "network_cards",
        "warning",
        Text("{down} of {cards} RDMA ports are down.", down=len(down), cards=len(cards)),
        Text("Down: {names}.", names=names),
        Text("If NCCL is to use them, jobs over several machines fail or run on fewer ports."),
        Text(
            "Look at cable, transceiver and the switch's port; or leave them out with NCCL_IB_HCA."
        ),
        ("ibstat", f"export NCCL_IB_HCA=^{','.join(c.name for c in down)}"),
        _BY,
        None,
        {"down_ports": len(down), "ports": len(cards)},
    )


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
            "network_cards",
            "warning",
            Text("A network port is slower than its like."),
            Text(
                "{slow}: {rate} Gbit/s; the others {usual}.",
                slow=", ".join(slow),
                rate=Number(min(rates[n] or 0 for n in slow) * 8 / 1e9, "g"),
                usual=Number((usual or 0) * 8 / 1e9, "g"),
            ),
            Text("Collectives over machines go at the pace of the slowest port."),
            Text("Look at cable, transceiver and the rate that the switch negotiated."),
            ("ibstat",),
            _BY,
            None,
            {"slow_ports": len(slow)},
        )


def _narrow(cards: Sequence[NetworkCard]) -> Iterable[Finding]:
    """A port that could bring more than its PCIe link takes."""
    for card in cards:
        if not card.pcie.narrow or card.pcie.bytes_per_s is None or card.bytes_per_s is None:
            continue
        if card.pcie.bytes_per_s < card.bytes_per_s:
            yield Finding(
                "network_cards",
                "warning",
                Text("The PCIe link of {card} is narrower than its port.", card=card.name),
                Text(
                    "{width} of {max_width} lanes: {link} GB/s for a port of {port}.",
                    width=card.pcie.width,
                    max_width=card.pcie.max_width,
                    link=Number(card.pcie.bytes_per_s / 1e9, ".0f"),
                    port=Number(card.bytes_per_s / 1e9, ".0f"),
                ),
                Text("The port cannot run at its rate."),
                Text("Seat the card again or try another slot."),
                (f"sudo lspci -vv -s {card.bus} | grep -E 'LnkCap|LnkSta'",),
                _BY,
                None,
                {"width": card.pcie.width, "max_width": card.pcie.max_width},
            )


def _far(found: Topology) -> Iterable[Finding]:
    """Devices whose nearest card is farther than that of their neighbours."""
    near = {
        a.index: given[1]
        for a in found.accelerators
        if not a.integrated and (given := found.nearest(a.index)) is not None
    }
    if len(near) < 2:
        return
    best = min(WAYS.index(way) for way in near.values())
    far = sorted(i for i, way in near.items() if way == "SYS" and best < WAYS.index("SYS"))
    if far:
        yield Finding(
            "network_cards",
            "note",
            Text("GPU {spans}: no network card on their side of the machine.", spans=spans(far)),
            Text("The nearest RDMA card hangs on another processor (SYS)."),
            Text("Their traffic to other machines crosses the link between processors."),
            None,
            ("nvidia-smi topo -m",),
            "nvidia-smi topo -m, /sys",
            None,
            {"far_devices": len(far)},
        )


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
        given[1] for a in found.accelerators if (given := found.nearest(a.index)) is not None
    )
    yield Finding(
        "network_cards",
        "ok",
        Text("Network ports are up."),
        Text("{said}; nearest to the devices: {ways}.", said=said, ways=_ways(ways))
        if ways
        else Text("{said}.", said=said),
        known_by=_BY,
        values={"ports": len(up), "bytes_per_s": sum(c.bytes_per_s or 0 for c in up)},
    )


def _ways(ways: Counter[Way]) -> str:
    return ", ".join(f"{n}x {way}" for way, n in sorted(ways.items()))
