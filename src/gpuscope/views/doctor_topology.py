"""How a machine is wired, on the terminal: processors, switches, devices and cards as a tree."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text
from rich.tree import Tree

from gpuscope.doctor.topology.types import Accelerator, NetworkCard, PcieLink, Topology, pcie_name
from gpuscope.views.i18n import tr

_KINDS = {"infiniband": "InfiniBand", "roce": "RoCE", "efa": "EFA", "rdma": "RDMA"}

Leaf = Accelerator | NetworkCard


def render_topology(found: Topology, lang: str = "en") -> RenderableType | None:
    """Return the tree; None where there is no device that one computes on.

    Args:
        found: the wiring.
        lang: "en" or "zh".
    """
    devices = [a for a in found.accelerators if not a.integrated]
    if not devices:
        return None
    leaves: list[Leaf] = [*devices, *(c for c in found.cards if c.bus and (c.rdma or c.up))]
    known = {node.index: node for node in found.nodes}
    places = sorted({leaf.numa_node or 0 for leaf in leaves} | set(known))
    parts: list[RenderableType] = [Text(), Text(tr("How this machine is wired", lang), "bold")]
    for index in places:
        node = known.get(index)
        title = Text(tr("NUMA node {n}", lang, n=index), "bold")
        if node is not None:
            title.append(f"  {tr('{cpus} CPUs', lang, cpus=len(node.cpus))}", "dim")
            if node.memory_bytes:
                title.append(f", {node.memory_bytes / 2**30:.0f} GiB", "dim")
        tree = Tree(title, guide_style="bright_black")
        _below(tree, [leaf for leaf in leaves if (leaf.numa_node or 0) == index], lang)
        parts.append(Padding(tree, (0, 0, 0, 2)))
    ways = _between(found, lang)
    if ways:
        parts.append(Padding(Text(ways, "dim"), (0, 0, 0, 2)))
    return Group(*parts)


def _below(tree: Tree, leaves: list[Leaf], lang: str) -> None:
    """Leaves that share a root port hang on one switch."""
    roots: dict[str, list[Leaf]] = {}
    for leaf in leaves:
        root = leaf.path[1] if len(leaf.path) > 3 else ""
        roots.setdefault(root or f"alone {id(leaf)}", []).append(leaf)
    for root, group in roots.items():
        if len(group) > 1:
            label = Text(tr("PCIe switch", lang))
            label.append(f"  {root}", "dim")
            branch = tree.add(label)
        else:
            branch = tree
        for leaf in group:
            branch.add(_leaf(leaf, lang))


def _leaf(leaf: Leaf, lang: str) -> Text:
    if isinstance(leaf, NetworkCard):
        text = Text(leaf.name, "magenta")
        text.append(f"  {_KINDS.get(leaf.kind, 'Ethernet')}", "dim")
        if leaf.bytes_per_s:
            text.append(f" {leaf.bytes_per_s * 8 / 1e9:.0f} Gbit/s", "dim")
        if leaf.up is False:
            text.append(f"  {tr('down', lang)}", "yellow")
        return text
    text = Text(f"GPU {leaf.index}", "bold cyan")
    text.append(f"  {leaf.name}")
    _pcie(text, leaf.pcie, lang)
    ports = leaf.nvlinks
    if ports is not None and ports.active:
        fewer = ports.expected is not None and ports.active < ports.expected
        words = f"{ports.active}/{ports.expected}" if fewer else f"{ports.active}"
        rate = f" ({ports.bytes_per_s / 1e9:.0f} GB/s)" if ports.bytes_per_s else ""
        text.append(f"  NVLink x{words}{rate}", "yellow" if fewer else "dim")
    return text


def _pcie(text: Text, link: PcieLink, lang: str) -> None:
    if link.width is None:
        return
    rate = f" ({link.bytes_per_s / 1e9:.0f} GB/s)" if link.bytes_per_s else ""
    text.append(f"  {pcie_name(link.generation, link.width)}{rate}", "dim")
    if link.narrow:
        best = pcie_name(link.max_generation, link.max_width)
        text.append(f"  {tr('of {best}', lang, best=best)}", "yellow")


def _between(found: Topology, lang: str) -> str:
    """The ways between devices in a line: how many pairs of each sort."""
    counted: dict[str, int] = {}
    for pair in found.pairs:
        if pair.way is not None:
            counted[pair.way] = counted.get(pair.way, 0) + 1
    if not counted:
        return ""
    names = {"NV": "NVLink", "XGMI": "Infinity Fabric"}
    said = ", ".join(f"{names.get(way, way)} {n}" for way, n in counted.items())
    return tr("Pairs of devices by the way between them: {ways}", lang, ways=said)
