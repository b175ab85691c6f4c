"""Memory nodes: which each device is near, and where this process may run.

Sources: Linux kernel, Documentation/admin-guide/mm/numa_memory_policy; AMD, "System optimization
for Instinct" and NVIDIA's tuning guides advise against automatic balancing on device hosts.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import gpus, spans
from gpuscope.doctor.registry import check
from gpuscope.doctor.topology.gather import topology
from gpuscope.doctor.topology.types import Accelerator, Topology
from gpuscope.doctor.types import Finding
from gpuscope.document.text import Text, joined

_BY = "/sys/bus/pci/devices/*/numa_node, /proc/self/status (Cpus_allowed_list)"
_SLOWER = Text(
    "Launches, copies and input then cross the link between processors: slower, and less even from "
    "run to run."
)


@check("numa_affinity", "topology", Text("Memory node of each device and of this process"))
def numa_affinity(machine: Machine) -> Iterable[Finding]:
    """Compare where devices hang with where this process may run."""
    found = topology(machine)
    devices = [a for a in found.accelerators if not a.integrated]
    if not devices or len(found.nodes) < 2:
        return
    unknown = [a for a in devices if a.numa_node is None]
    placed = [a for a in devices if a.numa_node is not None]
    if unknown and not placed:
        yield _unknown(unknown, len(found.nodes))
        return
    own = _own_nodes(found)
    if own and len(own) < len(found.nodes):
        far = [a for a in placed if a.numa_node not in own]
        yield _far(far, own) if far else _near(placed, own)
    else:
        yield _unbound(placed, len(found.nodes))
    if (machine.text("/proc/sys/kernel/numa_balancing") or "").strip() == "1":
        yield _balancing()


def _own_nodes(found: Topology) -> frozenset[int]:
    """Nodes on whose processors this process may run."""
    allowed = found.allowed_cpus or frozenset()
    return frozenset(n.index for n in found.nodes if n.cpus & allowed)


def _places(devices: list[Accelerator]) -> Text:
    return joined(
        Text(
            "{names} at node {node}",
            names=gpus(a.index for a in devices if a.numa_node == node),
            node=node,
        )
        for node in sorted({a.numa_node for a in devices if a.numa_node is not None})
    )


def _far(far: list[Accelerator], own: frozenset[int]) -> Finding:
    places, nodes = _places(far), spans(own)
    return Finding(
        "numa_affinity",
        "warning",
        Text("This process may only run far from some devices."),
        Text("It is bound to node {nodes}; {places}.", nodes=nodes, places=places),
        _SLOWER,
        Text("Use devices of the same node, or start the process on theirs."),
        (f"numactl --cpunodebind={far[0].numa_node} --membind={far[0].numa_node} python ...",),
        _BY,
        None,
        {"far_devices": len(far), "bound_nodes": nodes},
    )


def _near(devices: list[Accelerator], own: frozenset[int]) -> Finding:
    places = _places(devices)
    return Finding(
        "numa_affinity",
        "ok",
        Text("This process runs near its devices."),
        Text("Bound to node {spans}; {places}.", spans=spans(own), places=places),
        known_by=_BY,
        values={"bound_nodes": spans(own)},
    )


def _unbound(devices: list[Accelerator], nodes: int) -> Finding:
    places = _places(devices)
    node = devices[0].numa_node
    return Finding(
        "numa_affinity",
        "note",
        Text("Bind each process to the memory node of its device."),
        Text(
            "{nodes} nodes; {places}. This process may run on all of them.",
            nodes=nodes,
            places=places,
        ),
        Text(
            "The kernel may place a process far from its device; bound, it is steadier and often "
            "faster where the host sets the pace."
        ),
        None,
        (f"numactl --cpunodebind={node} --membind={node} python ...   # GPU {devices[0].index}",),
        _BY,
        None,
        {"nodes": nodes},
    )


def _unknown(devices: list[Accelerator], nodes: int) -> Finding:
    names = gpus(a.index for a in devices)
    return Finding(
        "numa_affinity",
        "unknown",
        Text("The memory node of the devices is not told."),
        Text(
            "{nodes} nodes; {names}: the firmware or the virtual machine names none.",
            nodes=nodes,
            names=names,
        ),
        known_by=_BY,
    )


def _balancing() -> Finding:
    return Finding(
        "numa_affinity",
        "note",
        Text("Automatic NUMA balancing is on."),
        Text("kernel.numa_balancing = 1."),
        Text(
            "The kernel unmaps pages now and then to learn who uses them: pauses on hosts that "
            "feed devices."
        ),
        None,
        ("sudo sysctl kernel.numa_balancing=0",),
        "/proc/sys/kernel/numa_balancing",
        None,
        {"numa_balancing": True},
    )
