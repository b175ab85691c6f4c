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
from gpuscope.explain.types import Words

_BY = "/sys/bus/pci/devices/*/numa_node, /proc/self/status (Cpus_allowed_list)"
_SLOWER = Words(
    "Launches, copies and input then cross the link between processors: slower, and less even "
    "from run to run.",
    "内核启动、拷贝和数据输入都要跨处理器互连：更慢，且每次运行波动更大。",
)


@check("numa_affinity", "topology", "Memory node of each device and of this process")
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


def _places(devices: list[Accelerator]) -> Words:
    parts_en, parts_zh = [], []
    for node in sorted({a.numa_node for a in devices if a.numa_node is not None}):
        names = gpus(a.index for a in devices if a.numa_node == node)
        parts_en.append(f"{names.en} at node {node}")
        parts_zh.append(f"{names.zh} 位于节点 {node}")
    return Words(", ".join(parts_en), "，".join(parts_zh))


def _far(far: list[Accelerator], own: frozenset[int]) -> Finding:
    places, nodes = _places(far), spans(own)
    return Finding(
        "numa_affinity", "warning",
        Words(
            "This process may only run far from some devices.",
            "本进程只能在远离部分设备的处理器上运行。",
        ),
        Words(
            f"It is bound to node {nodes}; {places.en}.", f"进程绑定在节点 {nodes}；{places.zh}。"
        ),
        _SLOWER,
        Words(
            "Use devices of the same node, or start the process on theirs.",
            "使用同一节点的设备，或把进程放到设备所在节点。",
        ),
        (f"numactl --cpunodebind={far[0].numa_node} --membind={far[0].numa_node} python ...",),
        _BY, None, {"far_devices": len(far), "bound_nodes": nodes},
    )  # fmt: skip


def _near(devices: list[Accelerator], own: frozenset[int]) -> Finding:
    places = _places(devices)
    return Finding(
        "numa_affinity", "ok",
        Words("This process runs near its devices.", "本进程在其设备附近运行。"),
        Words(f"Bound to node {spans(own)}; {places.en}.", f"绑定节点 {spans(own)}；{places.zh}。"),
        known_by=_BY, values={"bound_nodes": spans(own)},
    )  # fmt: skip


def _unbound(devices: list[Accelerator], nodes: int) -> Finding:
    places = _places(devices)
    node = devices[0].numa_node
    return Finding(
        "numa_affinity", "note",
        Words(
            "Bind each process to the memory node of its device.",
            "建议把每个进程绑定到其设备所在的 NUMA 节点。",
        ),
        Words(
            f"{nodes} nodes; {places.en}. This process may run on all of them.",
            f"共 {nodes} 个节点；{places.zh}。本进程可在所有节点上运行。",
        ),
        Words(
            "The kernel may place a process far from its device; bound, it is steadier and often "
            "faster where the host sets the pace.",
            "内核可能把进程放在远离设备的处理器上；绑定后更稳定，在受主机限制时往往更快。",
        ),
        None,
        (f"numactl --cpunodebind={node} --membind={node} python ...   # GPU {devices[0].index}",),
        _BY, None, {"nodes": nodes},
    )  # fmt: skip


def _unknown(devices: list[Accelerator], nodes: int) -> Finding:
    names = gpus(a.index for a in devices)
    return Finding(
        "numa_affinity", "unknown",
        Words("The memory node of the devices is not told.", "无法得知设备所在的 NUMA 节点。"),
        Words(
            f"{nodes} nodes; {names.en}: the firmware or the virtual machine names none.",
            f"共 {nodes} 个节点；{names.zh}：固件或虚拟机未给出。",
        ),
        known_by=_BY,
    )  # fmt: skip


def _balancing() -> Finding:
    return Finding(
        "numa_affinity", "note",
        Words("Automatic NUMA balancing is on.", "自动 NUMA 平衡已开启。"),
        Words("kernel.numa_balancing = 1.", "kernel.numa_balancing = 1。"),
        Words(
            "The kernel unmaps pages now and then to learn who uses them: pauses on hosts that "
            "feed devices.",
            "内核会不时解除页映射以统计访问者：给设备供数的主机会因此停顿。",
        ),
        None, ("sudo sysctl kernel.numa_balancing=0",), "/proc/sys/kernel/numa_balancing",
        None, {"numa_balancing": True},
    )  # fmt: skip
