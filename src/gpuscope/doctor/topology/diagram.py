"""The topology as a picture: processors above, what hangs on them below, NVLink at the bottom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.topology.gather import topology
from gpuscope.doctor.topology.types import (
    Accelerator,
    NetworkCard,
    NumaNode,
    NvLinks,
    PcieLink,
    Topology,
    pcie_name,
)
from gpuscope.document.blocks import Diagram, Link, Node
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, joined, sentences, verbatim

_TOP, _SWITCHES, _CARDS, _DEVICES, _BOTTOM = 0.08, 0.29, 0.49, 0.70, 0.93
_HEIGHT = 0.11

_DENSE = 6
"""From so many leaves on there is no room for words on the ways: the usual ones are told below, and
only those that differ are labelled."""

Leaf = Accelerator | NetworkCard


@dataclass(frozen=True, slots=True)
class _Column:
    """One leaf and where it hangs."""

    leaf: Leaf
    node: int
    switch: str


def topology_diagram(machine: Machine) -> Diagram | None:
    """Return the picture of a machine; None where there is no device to draw."""
    found = topology(machine)
    return draw(found) if any(not a.integrated for a in found.accelerators) else None


def draw(found: Topology) -> Diagram:
    """Return the picture of a topology."""
    columns = _columns(found)
    dense = len(columns) >= _DENSE
    nodes: list[Node] = []
    links: list[Link] = []
    shown = sorted({c.node for c in columns} | {n.index for n in found.nodes})
    centres = _places(columns, shown)
    for index in shown:
        nodes.append(_processor(found.nodes, index, centres[f"node{index}"], len(shown)))
    for a, b in pairwise(shown):
        label = Text("between processors")
        links.append(Link(f"node{a}", f"node{b}", label, directed=False))
    _switches(columns, centres, nodes, links, dense)
    usual = _usual([c.leaf.pcie for c in columns]) if dense else None
    for column in columns:
        key = _key(column.leaf)
        nodes.append(_leaf(column.leaf, centres[key], len(columns), dense))
        above = f"switch{column.switch}" if column.switch else f"node{column.node}"
        links.append(_pcie(above, key, column.leaf.pcie, usual))
    given = _nvlink(found, nodes, links, dense)
    return Diagram(
        Text("How this machine is wired"),
        tuple(nodes),
        tuple(links),
        note=_note(links, found, usual, given),
    )


def _usual(links: Sequence[PcieLink]) -> PcieLink | None:
    """The link that most have."""
    known = [link for link in links if link.width is not None and not link.narrow]
    return max(known, key=known.count) if known else None


def _columns(found: Topology) -> list[_Column]:
    leaves: list[Leaf] = [a for a in found.accelerators if not a.integrated]
    leaves += [c for c in found.cards if c.bus and (c.rdma or c.up)]
    roots: dict[str, int] = {}
    for leaf in leaves:
        if len(leaf.path) > 3:  # host bridge, root port, a bridge of a switch, device
            roots[leaf.path[1]] = roots.get(leaf.path[1], 0) + 1
    columns = []
    for leaf in leaves:
        root = leaf.path[1] if len(leaf.path) > 3 and roots[leaf.path[1]] > 1 else ""
        columns.append(_Column(leaf, leaf.numa_node or 0, root))
    order = {id(column): i for i, column in enumerate(columns)}
    first: dict[tuple[int, str], int] = {}
    for column in columns:  # what shares a switch stands together, in the order of the devices
        first.setdefault((column.node, column.switch), order[id(column)])
    return sorted(
        columns,
        key=lambda c: (c.node, first[c.node, c.switch] if c.switch else order[id(c)], order[id(c)]),
    )


def _places(columns: Sequence[_Column], shown: Sequence[int]) -> dict[str, float]:
    """Horizontal centres of all boxes."""
    count = max(1, len(columns))
    at = {_key(c.leaf): (i + 0.5) / count for i, c in enumerate(columns)}
    for number, index in enumerate(shown):
        at[f"node{index}"] = (number + 0.5) / len(shown)
    for switch in {c.switch for c in columns if c.switch}:
        own = [at[_key(c.leaf)] for c in columns if c.switch == switch]
        at[f"switch{switch}"] = sum(own) / len(own)
    return at


def _processor(known: Sequence[NumaNode], index: int, x: float, count: int) -> Node:
    node = next((n for n in known if n.index == index), None)
    cpus = len(node.cpus) if node else 0
    memory = node.memory_bytes if node else None
    size = f"{memory / 2**30:.0f} GiB" if memory else ""
    detail = joined((Text("{cpus} CPUs", cpus=cpus) if cpus else "", size))
    return Node(
        f"node{index}",
        Text("NUMA node {index}", index=index),
        "host",
        x,
        _TOP,
        min(0.26, 0.9 / count),
        _HEIGHT,
        detail or None,
    )


def _switches(
    columns: Sequence[_Column],
    centres: dict[str, float],
    nodes: list[Node],
    links: list[Link],
    dense: bool,
) -> None:
    for switch, node in dict.fromkeys((c.switch, c.node) for c in columns if c.switch):
        key = f"switch{switch}"
        label = Text("switch") if dense else Text("PCIe switch")
        width = min(0.18, 0.8 / len({c.switch for c in columns}))
        detail = None if dense else verbatim(switch)
        nodes.append(Node(key, label, "switch", centres[key], _SWITCHES, width, 0.09, detail))
        links.append(Link(f"node{node}", key, directed=False))


def _leaf(leaf: Leaf, x: float, count: int, dense: bool) -> Node:
    width = min(0.2, 0.98 / count) * 0.94
    if isinstance(leaf, Accelerator):
        numbered = f"GPU {leaf.index}"
        short = leaf.name.removeprefix("NVIDIA ").removeprefix("GeForce ")
        if dense:
            short = short.split("-")[0]
        return Node(
            _key(leaf), verbatim(numbered), "device", x, _DEVICES, width, _HEIGHT, verbatim(short)
        )
    rate = Text("down") if leaf.up is False else None
    if leaf.bytes_per_s:
        gigabits = f"{leaf.bytes_per_s * 8 / 1e9:.0f}"
        rate = verbatim(f"{gigabits}G" if dense else f"{gigabits} Gbit/s")
    kinds = {"infiniband": "InfiniBand", "roce": "RoCE", "efa": "EFA", "rdma": "RDMA"}
    kind = "" if dense and rate else kinds.get(leaf.kind, "Ethernet")
    detail = joined((kind, rate), " ")
    return Node(_key(leaf), verbatim(leaf.name), "nic", x, _CARDS, width, _HEIGHT, detail)


def _key(leaf: Leaf) -> str:
    if isinstance(leaf, Accelerator):
        return f"{leaf.vendor}{leaf.index}"
    return f"card {leaf.name}"


def _pcie(above: str, key: str, link: PcieLink, usual: PcieLink | None) -> Link:
    if link.width is None or link == usual:
        return Link(above, key, directed=False)
    now, best = (link.generation, link.width), (link.max_generation, link.max_width)
    name = verbatim(pcie_name(*now))
    if link.narrow and usual is not None:
        name = verbatim(f"x{link.width}/x{link.max_width}")
    elif link.narrow:
        name = Text("{name} (of {pcie_name})", name=name, pcie_name=pcie_name(*best))
    rate = None if link.narrow and usual is not None else link.bytes_per_s
    return Link(above, key, name, limit_bytes_per_s=rate, narrowest=link.narrow, directed=False)


def _nvlink(found: Topology, nodes: list[Node], links: list[Link], dense: bool) -> NvLinks | None:
    """NVSwitches as one box; bridges between two devices as ways between them.

    Returns:
        What most devices have, where it is not written on the ways.
    """
    linked = [a for a in found.accelerators if a.nvlinks and a.nvlinks.active]
    switched = [a for a in linked if a.nvlinks and a.nvlinks.switched]
    if not switched:
        for pair in found.pairs:
            if pair.way == "NV":
                first = next(a for a in linked if a.index == pair.a)
                links.append(_nvlink_way(first, f"nvidia{pair.a}", f"nvidia{pair.b}", shared=True))
        return None
    label = Text("NVSwitches")
    nodes.append(Node("nvswitch", label, "switch", 0.5, _BOTTOM, 0.96, 0.09))
    known = [a.nvlinks for a in switched if a.nvlinks]
    usual = max(known, key=lambda n: [t.active for t in known].count(n.active)) if dense else None
    for device in switched:
        same = usual is not None and device.nvlinks and device.nvlinks.active == usual.active
        links.append(
            Link(_key(device), "nvswitch", directed=False)
            if same
            else _nvlink_way(device, _key(device), "nvswitch")
        )
    return usual


def _nvlink_way(device: Accelerator, a: str, b: str, shared: bool = False) -> Link:
    ports = device.nvlinks
    assert ports is not None  # only devices with links come here
    fewer = ports.expected is not None and ports.active < ports.expected
    evidence = f"{ports.active}" if not fewer else f"{ports.active}/{ports.expected}"
    name = "NVLink" if shared else f"NVLink x{evidence}"
    # Between two devices without a switch the ports may be shared with others: no rate is claimed.
    rate = None if shared else ports.bytes_per_s
    return Link(a, b, verbatim(name), limit_bytes_per_s=rate, narrowest=fewer, directed=False)


def _note(
    links: Sequence[Link], found: Topology, usual: PcieLink | None, ports: NvLinks | None
) -> Text | None:
    said: list[Text] = []
    if usual is not None:
        name = _with_rate(pcie_name(usual.generation, usual.width), usual.bytes_per_s)
        said.append(Text("PCIe links are {name} where nothing else is written.", name=name))
    if ports is not None:
        given = _with_rate(Text("{active} ports a device", active=ports.active), ports.bytes_per_s)
        said.append(Text("NVLink: {ports} where nothing else is written.", ports=given))
    if any(link.narrowest for link in links):
        said.append(Text("Ways that carry less than they could are marked."))
    if any(a.pcie.slow for a in found.accelerators):
        said.append(
            Text("PCIe generations are those of this moment: idle devices run their links slower.")
        )
    return sentences(*said) if said else None


def _with_rate(name: str, bytes_per_s: float | None) -> str:
    if not bytes_per_s:
        return name
    return Text("{name} ({rate} GB/s)", name=name, rate=Number(bytes_per_s / 1e9, ".0f"))
