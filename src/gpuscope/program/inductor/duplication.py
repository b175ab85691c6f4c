"""Elementwise results that each kernel computes for itself instead of reading them.

Inductor writes the code of an elementwise result into everything that reads it. It becomes a buffer
only if it is read more than once and takes many reads itself (`StorageBox.mark_reuse`,
torch/_inductor/ir.py), or if a library reads it. The gradient of a ReLU in front of a batch norm is
such a case: the sums and the input's gradient each look at the sign again.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.program.inductor.graph import Node, Value
from gpuscope.program.inductor.partition import is_cheap, recipe_of, replace_reads

MOST_READS = 4
"""`realize_reads_threshold` (torch/_inductor/config.py)."""


def duplicate(nodes: Iterable[Node]) -> None:
    """Let kernels read the sources of a result instead of the result, where these are few.

    Args:
        nodes: grouped nodes of one phase, in order.
    """
    for node in nodes:
        if node.kind != "loop" or not is_cheap(node) or node.long:
            continue
        for value in node.writes:
            outside = _outside(value, node)
            if not outside:
                continue
            recipe = recipe_of(value, _stored, node.segment)
            if recipe is None or len(recipe.sources) > MOST_READS:
                continue
            for reader in outside:
                replace_reads(reader, {value: recipe})


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
    if any(r.part is not None and r.part.window for r in outside):
        return []
    return outside


def _stored(value: Value) -> bool:
    group = value.node.group if value.node is not None else None
    return value.kept or any(reader.group is not group for reader in value.readers)
