"""The topology of a machine, put together from NVML, nvidia-smi and sysfs."""

from __future__ import annotations

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.topology import pci
from gpuscope.doctor.topology.accelerators import accelerators
from gpuscope.doctor.topology.kfd import fabric_pairs
from gpuscope.doctor.topology.network import cards
from gpuscope.doctor.topology.processors import allowed_cpus, nodes
from gpuscope.doctor.topology.smi_matrix import SmiMatrix, read_matrix
from gpuscope.doctor.topology.types import Accelerator, NetworkCard, Pair, Topology, Way

_ANCESTORS: dict[str, Way] = {
    "internal": "PIX",
    "single": "PIX",
    "multiple": "PXB",
    "hostbridge": "PHB",
    "node": "NODE",
    "system": "SYS",
}
"""NVML's words for what two devices share, in those of nvidia-smi."""


def topology(machine: Machine) -> Topology:
    """Return how the machine is wired, as far as it can be seen."""
    matrix = _matrix(machine)
    devices = accelerators(machine, matrix)
    ports = cards(machine)
    return Topology(
        nodes=nodes(machine),
        accelerators=devices,
        cards=ports,
        pairs=_pairs(machine, devices, matrix),
        distances={
            (device.index, card.name): _distance(device, card, matrix)
            for device in devices
            if device.vendor == "nvidia" or not any(d.vendor == "nvidia" for d in devices)
            for card in ports
        },
        allowed_cpus=allowed_cpus(machine),
    )


def _matrix(machine: Machine) -> SmiMatrix:
    facts = machine.probe("nvml")
    if not facts or not facts.get("devices"):
        return SmiMatrix()
    answer = machine.command("nvidia-smi", "topo", "-m")
    return read_matrix(answer.out) if answer is not None and answer.ok else SmiMatrix()


def _distance(device: Accelerator, card: NetworkCard, matrix: SmiMatrix) -> Way | None:
    for nic, name in matrix.nics.items():
        if name == card.name and (given := matrix.ways.get((f"GPU{device.index}", nic))):
            return given
    return pci.way(device.path, card.path, device.numa_node, card.numa_node)


def _pairs(
    machine: Machine, devices: tuple[Accelerator, ...], matrix: SmiMatrix
) -> tuple[Pair, ...]:
    answer = machine.probe("nvml") or {}
    facts = {(p["a"], p["b"]): p for p in answer.get("pairs") or ()}
    fabric = fabric_pairs(machine)
    found = []
    for i, a in enumerate(devices):
        for b in devices[i + 1 :]:
            if a.vendor != b.vendor or a.integrated or b.integrated:
                continue
            if frozenset((a.bus, b.bus)) in fabric:
                found.append(Pair(a.index, b.index, "XGMI"))
                continue
            known = facts.get((a.index, b.index), {}) if a.vendor == "nvidia" else {}
            found.append(_pair(a, b, known, matrix))
    return tuple(found)


def _pair(a: Accelerator, b: Accelerator, known: dict[str, object], matrix: SmiMatrix) -> Pair:
    peers = known.get("p2p")
    status = peers if isinstance(peers, dict) else {}
    way: Way | None = None
    if a.vendor == "nvidia":
        way = matrix.ways.get((f"GPU{a.index}", f"GPU{b.index}"))
        if status.get("nvlink") == "ok" and a.nvlinks and a.nvlinks.active:
            way = "NV"
        way = way or _ANCESTORS.get(str(known.get("topology")))
    way = way or pci.way(a.path, b.path, a.numa_node, b.numa_node)
    answers = [status[name] for name in ("read", "write") if status.get(name) is not None]
    bad = [str(answer) for answer in answers if answer != "ok"]
    return Pair(a.index, b.index, way, not bad if answers else None, bad[0] if bad else "")
