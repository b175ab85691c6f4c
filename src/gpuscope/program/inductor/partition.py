"""What the backward pass computes again instead of reading it: AOTAutograd's partitioner.

The partitioner saves what costs the least memory between forward and backward
(torch/_functorch/partitioners.py, `min_cut_rematerialization_partition`). Kept here are the rules
that decide nearly all of it: results of reductions, random numbers and library calls are saved;
what a library call of the backward pass reads is saved; an elementwise result is computed again
from what its own kernel read, if that weighs no more. What a library call makes or reads weighs its
size, what only loops read twice that (`get_node_weight`); what is saved anyway weighs nothing. Long
chains over several kernels are not computed again (`ban_recompute_long_fusible_chains`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpuscope.program.inductor.values import Graph, Node, Value
from gpuscope.program.types import TensorSpec

Source = dict[Value, TensorSpec]
"""Values that others are computed from, with how they are read."""


def live_nodes(graph: Graph) -> list[Node]:
    """The nodes whose results anyone wants; loops that nobody reads are not compiled."""
    wanted: set[Value] = set()
    live = []
    for node in reversed(graph.nodes):
        if node.kind == "loop" and not any(v.kept or v in wanted for v in node.writes):
            continue
        live.append(node)
        wanted.update(value for value, _ in node.reads)
        wanted.update(node.over)
    live.reverse()
    alive = set(live)
    for node in live:
        for value, _ in node.reads:
            value.readers = {}
        node.after = [earlier for earlier in node.after if earlier in alive]
    for node in live:
        for value, _ in node.reads:
            value.readers[node] = None
    return live


def recompute(nodes: Iterable[Node]) -> None:
    """Replace reads of the backward loops by the sources of what is cheap to compute again.

    Args:
        nodes: live nodes in order; those of the forward pass are grouped into kernels.
    """
    backward = [n for n in nodes if _is_backward(n)]
    for node in backward:
        if node.kind == "library":
            for value, _ in node.reads:
                value.saved = True
    known: dict[Value, Source] = {}
    until = max((node.segment for node in backward), default=-1)
    for value in _candidates(backward):
        sources = sources_of(value, lambda v: v.saved or not _again(v), until)
        if sources is not None:
            new = [v for v in sources if not v.saved and v.node is not None]
            if sum(_weight(v) for v in new) <= _weight(value):
                for v in sources:
                    v.saved = True
                known[value] = sources
                continue
        value.saved = True
    if known:
        for node in backward:
            if node.kind == "loop":
                replace_reads(node, known)


def _is_backward(node: Node) -> bool:
    return node.kind != "outside" and node.op.phase == "backward" and not node.op.recomputed


def _candidates(backward: Iterable[Node]) -> list[Value]:
    """Results of forward loops that loops of the backward pass read."""
    found: dict[Value, None] = {}
    for node in backward:
        if node.kind != "loop":
            continue
        for value, _ in node.reads:
            maker = value.node
            if maker is None or value.saved or value in found:
                continue
            if maker.op.phase == "forward" and maker.kind == "loop":
                if _again(value):
                    found[value] = None
                else:
                    value.saved = True
    return sorted(found, key=lambda v: v.node.number if v.node else -1)


def _again(value: Value) -> bool:
    """Whether a value could be computed again."""
    return value.node is not None and is_cheap(value.node) and not value.kept


def _weight(value: Value) -> int:
    """Bytes, twice where only loops read the value, so that it need not be in memory at all."""
    maker = value.node
    materialized = value.kept or maker is None or maker.kind != "loop"
    materialized = materialized or any(r.kind != "loop" for r in value.readers)
    return value.spec.nbytes * (1 if materialized else 2)


def is_cheap(node: Node) -> bool:
    """Whether a node may be computed twice: an elementwise loop without random numbers."""
    part = node.part
    return part is not None and part.loop == "pointwise" and not part.random


def is_stored(value: Value) -> bool:
    """Whether the forward pass writes the value to memory for its own sake."""
    if value.kept or value.node is None:
        return True
    group = value.node.group
    return any(
        reader.group is not group and not (_is_backward(reader) and reader.kind == "loop")
        for reader in value.readers
    )


def sources_of(value: Value, stored: Callable[[Value], bool], until: int) -> Source | None:
    """What `value` is computed from, inside its kernel; None if that is overwritten too early.

    Args:
        value: made by an elementwise loop.
        stored: whether a value is in memory anyway, so that it can be read.
        until: segment in which the sources must still be there.
    """
    assert value.node is not None
    group = value.node.group
    sources: Source = {}
    seen: set[Node] = set()
    stack = [value.node]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for source, spec in node.reads:
            maker = source.node
            inside = maker is not None and maker.group is group
            if inside and maker is not None and is_cheap(maker) and not stored(source):
                stack.append(maker)
                continue
            if not source.lasts(until):
                return None
            held = sources.get(source)
            if held is None or spec.touched_bytes > held.touched_bytes:
                sources[source] = spec
    return sources


def replace_reads(node: Node, known: Mapping[Value, Source]) -> None:
    """Let a loop read the sources of the values in `known` instead of these."""
    reads: list[tuple[Value, TensorSpec]] = []
    have: set[tuple[Value, TensorSpec]] = set()
    for value, spec in node.reads:
        sources = known.get(value)
        pairs = [(value, spec)]
        if sources is not None:
            pairs = [(v, read_as(s, value, spec)) for v, s in sources.items()]
        if sources is not None:
            value.readers.pop(node, None)
        for pair in pairs:
            if pair in have:
                continue
            have.add(pair)
            reads.append(pair)
            if sources is not None:
                pair[0].readers[node] = None
    node.reads = reads


def read_as(source: TensorSpec, value: Value, spec: TensorSpec) -> TensorSpec:
    """How a source is read where only the part `spec` of `value` is computed from it."""
    if spec.numel >= value.spec.numel or source.numel <= spec.numel:
        return source
    return replace(source, shape=(spec.numel,), stride=(1,))
