"""Elementwise loops that Inductor writes into the only loop that reads them.

An elementwise result with one reader is never a buffer: the reader's code computes it, whatever
its own sizes (torch/_inductor/ir.py, `StorageBox.realize`). So a broadcast addend, a mask or a
concatenated piece costs no kernel of its own.
"""

from __future__ import annotations

from gpuscope.program.inductor.graph import Node, Value

_MOST_READS = 8
"""Tensors that a loop may read before it becomes a buffer (`realize_acc_reads_threshold`)."""


def inline(nodes: list[Node]) -> list[Node]:
    """The nodes without those that were written into all of their readers."""
    gone: set[Node] = set()
    for node in nodes:
        readers = _readers(node)
        if not readers:
            continue
        gone.add(node)
        value = node.writes[0]
        for reader in readers:
            times = sum(source is value for source, _ in reader.reads)
            reader.reads = [pair for pair in reader.reads if pair[0] is not value] + node.reads
            reader.write_in((node.op, *node.inlined) * times)
            reader.after = [n for n in reader.after if n is not node] + node.after
            for source, _ in node.reads:
                source.readers.pop(node, None)
                source.readers[reader] = None
    return [node for node in nodes if node not in gone]


def _readers(node: Node) -> list[Node]:
    """The loops that a node is to be written into; none if it becomes a buffer.

    What reads nothing (a table of numbers such as positions and their cosines) is written into
    each of its readers (`StorageBox.should_realize_on_reuse` counts reads), the rest into the only
    one.
    """
    part = node.part
    if part is None or part.loop != "pointwise" or part.random or len(node.writes) != 1:
        return []
    value = node.writes[0]
    if node.long or value.kept or (len(value.readers) > 1 and node.reads):
        return []
    readers = list(value.readers)
    return readers if all(_may_hold(reader, node, value) for reader in readers) else []


def _may_hold(reader: Node, node: Node, value: Value) -> bool:
    """Whether a node can be written into the loop that reads its value."""
    if value.overwritten_in is not None and value not in reader.over:
        return False  # else it is written in place by its reader: a compiler makes that a new value
    target, part = reader.part, node.part
    if target is None or part is None or reader.segment != node.segment:
        return False
    if target.loop == "scatter" or target.window or target.rows * target.columns < part.rows:
        return False
    if len({source for source, _ in (*node.reads, *reader.reads)}) > _MOST_READS + 1:
        return False
    return all(source.lasts(node.segment) for source, _ in node.reads)
