"""Kernels of one graph that become one, once every loop has its kernel.

Inductor's scheduler looks at all pairs of kernels that read a common buffer, those that share the
most bytes first, and joins them where their sizes agree, neither needs the other, and they are
near each other (`fuse_nodes_once` and `can_fuse`, torch/_inductor/scheduler.py). Sums across the
rows of a large tensor share a kernel with sums along them (`MixOrderReduction`).
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.program.inductor.graph import Group, Node, Value
from gpuscope.program.inductor.grouping import (
    FARTHEST,
    LEAST_SHARED_BYTES,
    MAX_NODES,
    is_split,
    may_mix,
    merge,
    mergeable,
    reads_across,
)

_MOST_READERS = 64
"""Kernels of one value that are looked at (`max_fusion_buffer_group_pairwise_attempts`)."""


def join(nodes: Iterable[Node]) -> None:
    """Make one kernel of those that read the same data, and of sums along and across rows.

    Args:
        nodes: of whole graphs, all in their kernels; what readers compute for themselves
            (`duplicate`) no longer ties kernels together.
    """
    members = [node for node in nodes if node.group is not None]
    _mix(members)
    _share(members)


def _mix(nodes: Iterable[Node]) -> None:
    groups = {node.group: None for node in nodes if node.group is not None}
    along: dict[tuple[int, int, int], list[Group]] = {}
    for group in groups:
        if group.inner and group.columns > 1 and not group.mixed and not is_split(group):
            along.setdefault((group.segment, group.rows, group.columns), []).append(group)
    for group in groups:
        if group.inner or not is_split(group) or not may_mix(group.columns, group.rows):
            continue
        for wide in along.get((group.segment, group.columns, group.rows), ()):
            if len(wide.nodes) + len(group.nodes) >= MAX_NODES or wide.mixed:
                continue
            if reads_across(wide.nodes, wide.rows * wide.columns):
                continue
            if _shares_a_read(group, wide) and not _one_needs_the_other(group, wide):
                rows, columns = wide.rows, wide.columns
                merge(wide, group)
                wide.rows, wide.columns, wide.inner, wide.mixed = rows, columns, True, True
                break


def _share(nodes: Iterable[Node]) -> None:
    """Kernels that read the same data, the most bytes first."""
    nodes = list(nodes)
    shared, cuts = _shared_bytes(nodes), _Cuts(nodes)
    merged: dict[Group, Group] = {}
    for (group, other), bytes_ in sorted(shared.items(), key=lambda item: -item[1]):
        if bytes_ < LEAST_SHARED_BYTES:
            break
        while group in merged:
            group = merged[group]
        while other in merged:
            other = merged[other]
        if group is other or len(group.nodes) + len(other.nodes) > MAX_NODES:
            continue
        if group.mixed or not mergeable(group, other) or _apart(group, other):
            continue
        if not _one_needs_the_other(group, other, cuts):
            merge(group, other)
            cuts.cover(group)
            merged[other] = group


class _Cuts:
    """Places in the order of the nodes that no kernel reaches across.

    What lies before one needs nothing that lies behind it, so that who looks for a way to a kernel
    need not look there: without them a deep model's backward pass is walked for each pair.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self.first = min((node.number for node in nodes), default=0)
        self._across = [0] * (max((node.number for node in nodes), default=0) - self.first + 2)
        for group in {node.group: None for node in nodes if node.group is not None}:
            self.cover(group)
        for node in nodes:
            for earlier in node.before():
                if earlier.number > node.number:
                    self._cover(node.number, earlier.number)

    def cover(self, group: Group) -> None:
        """Take the places inside a kernel out."""
        self._cover(group.nodes[0].number, group.nodes[-1].number)

    def _cover(self, first: int, last: int) -> None:
        for at in range(first - self.first + 1, min(last - self.first + 1, len(self._across))):
            self._across[at] += 1

    def before(self, group: Group) -> int:
        """Number of the node at the last such place before a kernel, which may be its first."""
        at = group.nodes[0].number - self.first
        while self._across[at]:
            at -= 1
        return at + self.first


def _shared_bytes(nodes: Iterable[Node]) -> dict[tuple[Group, Group], int]:
    readers: dict[Value, dict[Group, int]] = {}
    for node in nodes:
        group = node.group
        if node.kind != "loop" or group is None or _stays_alone(group):
            continue
        for value, spec in node.reads:
            if not value.overlaps(spec, node.segment):
                continue
            of_value = readers.setdefault(value, {})
            of_value[group] = max(of_value.get(group, 0), spec.touched_bytes)
    shared: dict[tuple[Group, Group], int] = {}
    for of_value in readers.values():
        groups = list(of_value)[:_MOST_READERS]
        for at, group in enumerate(groups):
            for other in groups[at + 1 :]:
                if group.segment == other.segment:
                    least = min(of_value[group], of_value[other])
                    shared[group, other] = shared.get((group, other), 0) + least
    return shared


def _stays_alone(group: Group) -> bool:
    """Pieces of sums are walked in another order, and a scatter ends its kernel."""
    return is_split(group) or any(
        node.part is not None and node.part.loop == "scatter" for node in group.nodes
    )


def _apart(group: Group, other: Group) -> bool:
    first, second = group.nodes, other.nodes
    far = max(abs(first[0].number - second[-1].number), abs(second[0].number - first[-1].number))
    return far > FARTHEST or first[0].op.stream != second[0].op.stream


def _shares_a_read(group: Group, other: Group) -> bool:
    """Whether two kernels read one large value."""
    least = group.rows * group.columns
    mine = {value for node in group.nodes for value, spec in node.reads if spec.numel >= least}
    return any(value in mine for node in other.nodes for value, _ in node.reads)


def _one_needs_the_other(group: Group, other: Group, cuts: _Cuts | None = None) -> bool:
    """Whether there is a way from one kernel's results to the other."""
    return _needs(group, other, cuts) or _needs(other, group, cuts)


def _needs(group: Group, wanted: Group, cuts: _Cuts | None) -> bool:
    least = -1 if cuts is None else cuts.before(wanted)
    if group.nodes[-1].number < least:
        return False
    seen = {group}
    stack = [group]
    while stack:
        for node in stack.pop().nodes:
            for earlier in node.before():
                held = earlier.group
                if held is wanted:
                    return True
                if earlier.number < least:
                    continue
                if held is not None and held.segment == group.segment and held not in seen:
                    seen.add(held)
                    stack.append(held)
    return False
