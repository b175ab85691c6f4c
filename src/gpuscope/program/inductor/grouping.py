"""Which loops share a kernel: the rules of Inductor's scheduler.

Two loop nests of one graph fuse when one makes what the other reads, or both read the same data,
and their sizes agree (torch/_inductor/codegen/simd.py, `can_fuse`): elementwise loops of as many
points; an elementwise loop over the rows, or over all elements, of a reduction; reductions of the
same rows and columns. Reductions along and across the rows of a large tensor share a kernel too
(`MixOrderReduction`). Reductions that are split into pieces share a kernel only with each other.
Loops that read the result of a split reduction or of a scatter cannot be in
its kernel.

The kernels' order has no cycle because every kernel has a *level*: a node joins a kernel only if
all that it depends on outside of this kernel has a lower level; else it begins a kernel one level
above.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.program.inductor.graph import Group, Node, Value, lies_across
from gpuscope.program.inductor.lowering import Part

MAX_NODES = 64
"""`max_fusion_size` (torch/_inductor/config.py)."""

LEAST_SHARED_BYTES = 10
"""`score_fusion_memory_threshold` (same file)."""

FARTHEST = 64
"""Nodes between two kernels that only share a read (`are_long_distant_nodes`)."""

_READERS_KEPT = 4


class Grouper:
    """Puts nodes into kernels, in program order."""

    def __init__(self) -> None:
        self.floor = 0
        self.highest = 0
        self.segment = -1
        self._readers: dict[Value, list[Group]] = {}
        self._waiting: dict[Node, None] = {}

    def add(self, nodes: list[Node]) -> None:
        """Group more nodes; those before them have been grouped."""
        for node in nodes:
            if node.segment != self.segment:
                self._place_waiting()
                self.segment = node.segment
                self.floor = self.highest
                self._readers.clear()
            if _needs_nothing(node):
                self._waiting[node] = None
                continue
            self._place(node)
        self._place_waiting()

    def _place(self, node: Node) -> None:
        sources = self._sources_of(node)
        for source in sources:
            source.group = None
        group = self._find(node) if node.kind == "loop" else None
        if group is None:
            group = self._begin(node)
        else:
            _join(group, node)
        node.group = group
        for source in sources:
            source.group = group
            group.nodes.append(source)
        if sources:
            group.nodes.sort(key=lambda n: n.number)
        for value, _ in node.reads:
            groups = self._readers.setdefault(value, [])
            if group not in groups:
                groups.append(group)
                del groups[:-_READERS_KEPT]

    def _sources_of(self, node: Node) -> list[Node]:
        """Loops that wait for their first reader and fit into its kernel; others begin one."""
        fitting = []
        for value, _ in node.reads:
            maker = value.node
            if maker is None or maker not in self._waiting:
                continue
            del self._waiting[maker]
            part, own = node.part, maker.part
            if part is not None and own is not None and part.rows * part.columns == own.rows:
                fitting.append(maker)
            else:
                maker.group = self._begin(maker)
        return fitting

    def _place_waiting(self) -> None:
        for node in self._waiting:
            node.group = self._begin(node)
        self._waiting.clear()

    def _begin(self, node: Node) -> Group:
        level = self.floor
        for earlier in node.before():
            if earlier.group is not None and earlier.group.level > level:
                level = earlier.group.level
        # A call that needs nothing (a fill) comes before all loops.
        first = node.kind == "library" and not any(True for _ in node.before())
        group = Group(level if first else level + 1, node.segment, nodes=[node])
        if node.part is not None:
            part = node.part
            group.rows, group.columns, group.inner = part.rows, part.columns, part.inner
            node.reduced = part.loop == "reduction"
            node.late = part.splits > 1 or part.loop == "scatter"
        self.highest = max(self.highest, group.level)
        return group

    def _find(self, node: Node) -> Group | None:
        """The kernel that shares the most bytes with the node, of those that it may join."""
        shared: dict[Group, int] = {}
        producers: set[Group] = set()
        for value, spec in node.reads:
            groups = (
                list(self._readers.get(value, ())) if value.overlaps(spec, node.segment) else []
            )
            if value.node is not None and value.node.group is not None:
                producers.add(value.node.group)
                if value.node.group not in groups:
                    groups.append(value.node.group)
            for group in groups:
                if group.segment == node.segment:
                    shared[group] = shared.get(group, 0) + spec.touched_bytes
        ranked = sorted(shared, key=lambda g: (-shared[g], g not in producers))
        for group in ranked:
            if shared[group] < LEAST_SHARED_BYTES:
                break
            if group.nodes[0].kind != "loop" or len(group.nodes) >= MAX_NODES:
                continue
            if group not in producers and _distance(group, node) > FARTHEST:
                continue
            others = _allowed(group, node)
            if others is not None:
                for other in others:
                    self._merge(group, other)
                return group
        return None

    def _merge(self, group: Group, other: Group) -> None:
        for node in other.nodes:
            for value, _ in node.reads:
                groups = self._readers.get(value)
                if groups is not None:
                    kept = [g for g in groups if g is not other and g is not group]
                    self._readers[value] = [*kept, group]
        merge(group, other)


def _needs_nothing(node: Node) -> bool:
    """Loops that read nothing, such as random numbers: made where they are first wanted."""
    return node.kind == "loop" and not node.reads and not node.after


def _distance(group: Group, node: Node) -> int:
    return node.op.index - group.nodes[-1].op.index


def _allowed(group: Group, node: Node) -> list[Group] | None:
    """Kernels to merge into `group` so that the node can join it; None if it cannot.

    Kernels of one level do not depend on each other, so they can be merged.
    """
    part = node.part
    assert part is not None
    if node.op.stream != group.nodes[0].op.stream:
        return None
    late = False
    level = [group]
    for earlier in node.before():
        held = earlier.group
        if held is None and _needs_nothing(earlier):
            continue  # comes into this kernel with the node
        if held is not group and (held is None or held.level < group.level):
            continue
        if part.window or _reads_elsewhere(node, earlier):
            return None  # it reads elements that other blocks make
        if held is not group and held not in level:
            if held is None or held.level > group.level or not mergeable(group, held):
                return None
            level.append(held)
        if earlier.late:
            late = True
            if not _fits_late(part, earlier.part):
                return None
    if sum(len(g.nodes) for g in level) >= MAX_NODES:
        return None
    if late or _mixes(group, node):
        return level[1:]
    if all(fits(g, part) and _split_alike(g, part) for g in level):
        return level[1:]
    return None


def _reads_elsewhere(node: Node, earlier: Node) -> bool:
    """Whether a loop that puts pieces together reads a piece that the earlier one makes."""
    part = node.part
    if part is None or not node.shifts:
        return False
    return any(v.node is earlier and spec.numel != part.rows for v, spec in node.reads)


def _split_alike(group: Group, part: Part) -> bool:
    """Whether loops stay together once reductions are split.

    The pieces of a split reduction are walked in another order than elements, so a kernel of them
    holds nothing else (`can_fuse` compares sizes after the split).
    """
    split = is_split(group)
    if not split and part.splits == 1:
        return True
    alike = all(n.part is not None and n.part.loop == "reduction" for n in group.nodes)
    return split and part.splits > 1 and alike


def merge(group: Group, other: Group) -> None:
    """Put the nodes of `other` into `group`."""
    for node in other.nodes:
        node.group = group
    group.nodes = sorted((*group.nodes, *other.nodes), key=lambda n: n.number)
    if other.columns > 1:
        group.rows, group.columns, group.inner = other.rows, other.columns, other.inner
    other.nodes = []


def mergeable(group: Group, other: Group) -> bool:
    """Whether the sizes of two kernels of one graph agree."""
    if other.nodes[0].kind != "loop" or other.segment != group.segment or other.mixed:
        return False
    sizes = (other.rows, other.columns, other.inner)
    if is_split(other) != is_split(group):
        return False
    if other.columns > 1 and group.columns > 1:
        return not group.mixed and sizes == (group.rows, group.columns, group.inner)
    wide, narrow = (other, group) if other.columns > 1 else (group, other)
    return narrow.rows == wide.rows * wide.columns or (
        wide.columns > 1 and narrow.rows == wide.rows
    )


def is_split(group: Group) -> bool:
    """Whether a kernel makes pieces of sums."""
    parts = [node.part for node in group.nodes if node.part is not None]
    return not group.mixed and any(part.splits > 1 for part in parts)


def _fits_late(part: Part, earlier: Part | None) -> bool:
    """Whether a loop can go on where a split reduction's second kernel has its results."""
    if earlier is None or earlier.loop == "scatter":
        return False
    return part.loop == "pointwise" and part.rows == earlier.rows


def fits(group: Group, part: Part) -> bool:
    """Whether the sizes of a loop agree with those of a kernel."""
    points = group.rows * group.columns
    if part.loop != "reduction":
        return part.rows == points or (group.columns > 1 and part.rows == group.rows)
    if group.columns == 1:
        return group.rows in (part.rows * part.columns, part.rows)
    return (part.rows, part.columns, part.inner) == (group.rows, group.columns, group.inner)


def may_mix(rows: int, columns: int) -> bool:
    """Whether sums along rows and across them are worth one kernel."""
    return rows * columns >= 5 * 2**20 and rows >= max(2 * columns, 4096) and columns <= 16384


def reads_across(nodes: Iterable[Node], least: int) -> bool:
    """Whether sums along rows read large ones whose values are apart (`is_contiguous_node`)."""
    sums = (n for n in nodes if n.part is not None and n.part.loop == "reduction" and n.part.inner)
    return any(lies_across(spec) for n in sums for _, spec in n.reads if spec.numel >= least)


def _mixes(group: Group, node: Node) -> bool:
    """Whether a sum across rows may share a kernel with a reduction along them.

    Sizes after `MixOrderReduction.can_fuse` (torch/_inductor/scheduler.py).
    """
    part = node.part
    if part is None or part.loop != "reduction" or group.columns == 1:
        return False
    if part.inner == group.inner or (part.rows, part.columns) != (group.columns, group.rows):
        return False
    rows, columns = (group.rows, group.columns) if group.inner else (part.rows, part.columns)
    if not may_mix(rows, columns):
        return False
    if reads_across(group.nodes if group.inner else (node,), rows * columns):
        return False
    # Siblings only: neither must need what the other makes.
    return not any(earlier.group is group and earlier.reduced for earlier in node.before())


def _join(group: Group, node: Node) -> None:
    part = node.part
    assert part is not None
    group.nodes.append(node)
    inside = [earlier for earlier in node.before() if earlier.group is group]
    node.reduced = part.loop == "reduction" or any(earlier.reduced for earlier in inside)
    node.late = part.splits > 1 or part.loop == "scatter" or any(earlier.late for earlier in inside)
    if part.loop != "reduction":
        return
    if group.columns == 1:
        group.rows, group.columns, group.inner = part.rows, part.columns, part.inner
    elif part.inner != group.inner:
        group.mixed = True
        if part.inner:
            group.rows, group.columns, group.inner = part.rows, part.columns, True
