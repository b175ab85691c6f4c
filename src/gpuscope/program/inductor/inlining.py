"""Elementwise loops that Inductor writes into the only loop that reads them.

An elementwise result with one reader is never a buffer: the reader's code computes it, whatever
its own sizes (torch/_inductor/ir.py, `StorageBox.realize`). So a broadcast addend, a mask or a
concatenated piece costs no kernel of its own.
"""

from __future__ import annotations

from gpuscope.program.inductor.values import Node

_MOST_READS = 8
"""Tensors that a loop may read before it becomes a buffer (`realize_acc_reads_threshold`)."""


def inline(nodes: list[Node]) -> list[Node]:
    """The nodes without those that were written into their reader."""
    gone: set[Node] = set()
    for node in nodes:
        reader = _reader(node)
        if reader is None:
            continue
        gone.add(node)
        value = node.writes[0]
        reader.reads = [pair for pair in reader.reads if pair[0] is not value] + node.reads
        reader.inlined += [node.op, *node.inlined]
        reader.after = [n for n in reader.after if n is not node] + node.after
        for source, _ in node.reads:
            source.readers.pop(node, None)
            source.readers[reader] = None
    return [node for node in nodes if node not in gone]


def _reader(node: Node) -> Node | None:
    """The one loop that a node can be written into; None if there is none."""
    part = node.part
    if part is None or part.loop != "pointwise" or part.random or len(node.writes) != 1:
        return None
    value = node.writes[0]
    if value.kept or value.overwritten_in is not None or not value.readers:
        return None
    if len(value.readers) > 1:
        return None
    reader = next(iter(value.readers))
    target = reader.part
    if target is None or reader.segment != node.segment or target.loop == "scatter":
        return None
    if target.window:
        return None
    if target.rows * target.columns < part.rows:
        return None
    if len({source for source, _ in (*node.reads, *reader.reads)}) > _MOST_READS + 1:
        return None
    if not all(source.lasts(node.segment) for source, _ in node.reads):
        return None
    return reader
