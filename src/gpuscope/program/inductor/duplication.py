"""Elementwise results that each kernel computes for itself, because reading would cost more.

Inductor stores an elementwise result that several kernels of one graph read only if computing it
takes many reads (`realize_acc_reads_threshold`, torch/_inductor/config.py). The gradient of a
normalization is such a case: the sums along rows and across them each convert and multiply the
same inputs.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.program.inductor.partition import (
    Source,
    is_cheap,
    read_as,
    replace_reads,
    sources_of,
)
from gpuscope.program.inductor.values import Group, Node, Value

MOST_READS = 8
"""`realize_acc_reads_threshold`."""


def duplicate(nodes: Iterable[Node]) -> None:
    """Let kernels read the sources of a result instead of the result, where that is less.

    Args:
        nodes: grouped nodes of one phase, in order.
    """
    read: dict[Group, set[Value]] = {}
    for node in nodes:
        if node.kind != "loop" or not is_cheap(node):
            continue
        for value in node.writes:
            outside = _outside(value, node)
            if not outside:
                continue
            sources = sources_of(value, _stored, node.segment)
            if sources is None or len(sources) > MOST_READS:
                continue
            groups = {reader.group for reader in outside if reader.group is not None}
            added = sum(_added_bytes(reader, value, sources, read) for reader in outside)
            if added < value.spec.nbytes * (1 + len(groups)):
                for reader in outside:
                    replace_reads(reader, {value: sources})
                for group in groups:
                    read[group] |= set(sources)


def _outside(value: Value, node: Node) -> list[Node]:
    """Loops of other kernels that read a value; none if it is stored for another reason too.

    Whether it is also kept for the backward pass is the partitioner's question.
    """
    if value.kept or value.overwritten_in is not None:
        return []
    outside = [r for r in value.readers if r.group is not node.group and r.group is not None]
    others = [r for r in value.readers if r.group is None and r.kind != "loop"]
    if others or any(r.kind != "loop" or r.segment != node.segment for r in outside):
        return []
    return outside


def _stored(value: Value) -> bool:
    group = value.node.group if value.node is not None else None
    return value.kept or any(reader.group is not group for reader in value.readers)


def _added_bytes(
    reader: Node, value: Value, sources: Source, read: dict[Group, set[Value]]
) -> int:
    group = reader.group
    assert group is not None
    have = read.get(group)
    if have is None:
        have = {v for node in group.nodes for v, _ in node.reads}
        read[group] = have
    spec = next(s for v, s in reader.reads if v is value)
    return sum(
        read_as(s, value, spec).touched_bytes for v, s in sources.items() if v not in have
    )
