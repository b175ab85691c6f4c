"""Elementwise results that each kernel computes for itself instead of reading them.

Inductor writes the code of an elementwise result into everything that reads it. It becomes a buffer
only if it is read more than once and takes many reads itself (`StorageBox.mark_reuse`,
torch/_inductor/ir.py), or if a library reads it: then for all that is lowered after that call. The
gradient of a ReLU in front of a batch norm is such a case: the sums and the input's gradient each
look at the sign again. So is that of a GELU in front of a bias that is added by itself: the bias'
sum comes before the products.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

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
    """Loops of other kernels that read a value before it is a buffer; none if it always is one.

    Whether it is also kept for the backward pass is the partitioner's question.
    """
    if value.kept or value.overwritten_in is not None:
        return []
    outside = [r for r in value.readers if r.group is not node.group and r.group is not None]
    if any(r.segment != node.segment for r in outside):
        return []
    realized = min((r.number for r in outside if r.kind != "loop"), default=inf)
    loops = [r for r in outside if r.number < realized]
    return [] if any(r.part is not None and r.part.window for r in loops) else loops


def _stored(value: Value) -> bool:
    group = value.node.group if value.node is not None else None
    return value.kept or any(reader.group is not group for reader in value.readers)
