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

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from gpuscope.program.inductor.graph import Graph, Node, Value
from gpuscope.program.inductor.lowering import base_name
from gpuscope.program.inductor.min_cut import UNBOUNDED, cheapest_cut
from gpuscope.program.types import Op, TensorSpec

Source = dict[Value, TensorSpec]
"""Values that others are computed from, with how they are read."""


@dataclass(slots=True)
class Recipe:
    """How a value is computed again: from what, and by which operators."""

    sources: Source = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)

    def add(self, source: Value, spec: TensorSpec) -> None:
        """One more value that is read; the wider way of reading it counts."""
        held = self.sources.get(source)
        if held is None or spec.touched_bytes > held.touched_bytes:
            self.sources[source] = spec


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
    """Replace reads of the backward loops by the sources of what is cheaper to compute again.

    Args:
        nodes: live nodes in order; those of the forward pass are grouped into kernels.
    """
    backward = [n for n in nodes if _is_backward(n)]
    asked: dict[Value, list[Node]] = {}
    for node in backward:
        for value, _ in node.reads:
            maker = value.node
            if maker is None or maker.kind == "outside" or maker.op.phase != "forward":
                continue
            asked.setdefault(value, []).append(node)
    forward = _makers(asked)
    values = [value for value in forward if value.node is not None]
    number = {value: at for at, value in enumerate(values)}
    far = _distances(values, asked)
    until = max((node.segment for node in backward), default=-1)
    late = _used_far_apart(values)
    given, followers = [], {}
    for value, at in number.items():
        if not _again(value, asked.get(value, ()), late):
            given.append(at)
        followers[at] = [number[made] for made in _made_from(value) if made in number]
    kept, anew = cheapest_cut(
        [_weight(value, far[value], until) for value in values],
        followers,
        given,
        [number[value] for value in asked if value in number],
    )
    known = {values[at]: _recipe(values[at], number, anew) for at in sorted(anew)}
    for value in (values[at] for at in kept):
        value.saved = True
    for node in backward:
        if node.kind == "loop":
            replace_reads(node, known)


def _is_backward(node: Node) -> bool:
    return node.kind != "outside" and node.op.phase == "backward" and not node.op.recomputed


def _makers(asked: Iterable[Value]) -> list[Value]:
    """What the backward pass asks for, and all that it could be computed from again."""
    found: dict[Value, None] = {}
    stack = list(asked)
    while stack:
        value = stack.pop()
        if value in found:
            continue
        found[value] = None
        if value.node is not None and is_cheap(value.node) and not value.kept:
            inside = (v for v, _ in value.node.reads if v.node is not None)
            stack.extend(v for v in inside if _of_one_graph(v, value))
    return sorted(found, key=lambda v: v.node.number if v.node else -1)


def _of_one_graph(source: Value, value: Value) -> bool:
    """Whether two values come from one forward pass: others are arguments."""
    assert source.node is not None
    assert value.node is not None
    return source.node.kind != "outside" and source.node.segment == value.node.segment


def _made_from(value: Value) -> Iterable[Value]:
    return (made for reader in value.readers for made in reader.writes)


def _distances(values: list[Value], asked: Mapping[Value, object]) -> dict[Value, int]:
    """Operators from each value to the backward pass (`dist_from_bw`)."""
    far: dict[Value, int] = {}
    for value in reversed(values):
        ways = [
            far[made] + 1 + len(made.node.inlined)
            for made in _made_from(value)
            if made in far and made.node is not None
        ]
        far[value] = 1 if value in asked else min(ways, default=_FARTHEST)
    return far


_FARTHEST = 100
"""Operators to the backward pass beyond which nothing weighs more."""


def _used_far_apart(values: Iterable[Value]) -> set[Node]:
    """Loops that read what a loop before a library call read, and come after that call.

    Both would not share a kernel if they were computed again (`ban_recompute_used_far_apart`).
    """
    far: set[Node] = set()
    for value in values:
        users = [n for n in value.readers if not _is_backward(n)]
        if len(users) < 2:
            continue
        first = _first_call(users, max(n.number for n in users))
        far.update(n for n in users if n.number > first and n.kind == "loop")
    return far


def _first_call(users: Iterable[Node], until: int) -> int:
    """Number of the first library call that takes what comes of the users, `until` if none does."""
    waiting = [(node.number, node) for node in users]
    heapify(waiting)
    seen = {node for _, node in waiting}
    while waiting:
        number, node = heappop(waiting)
        if node.kind != "loop":
            return number
        for value in node.writes:
            for reader in value.readers:
                if reader.number <= until and reader not in seen and not _is_backward(reader):
                    seen.add(reader)
                    heappush(waiting, (reader.number, reader))
    return until


def _again(value: Value, asking: Iterable[Node], late: Container[Node]) -> bool:
    """Whether a value may be computed again."""
    node = value.node
    if node is None or value.kept or not is_cheap(node) or node in late:
        return False
    if base_name(node.op) in _NEVER_AGAIN or any(reader.kind != "loop" for reader in asking):
        return False
    return 4 * value.spec.nbytes >= sum(spec.nbytes for _, spec in node.reads)


_NEVER_AGAIN = frozenset(
    ["cat", "stack", "constant_pad_nd", "embedding", "slice_scatter", "select_scatter", "roll"]
)
"""Loops that are not among the operators that may be computed again (`get_default_op_list`)."""


def _weight(value: Value, far: int, until: int) -> int:
    """Bytes, a tenth more for each operator to the backward pass; twice where only loops read them.

    Such a value need not be in memory at all, unless its maker is none that others are fused with
    (`is_fusible`). One that is overwritten cannot be kept.
    """
    if not value.lasts(until):
        return UNBOUNDED
    maker = value.node
    fusible = maker is not None and maker.kind == "loop" and base_name(maker.op) not in _NEVER_AGAIN
    materialized = value.kept or not fusible or any(r.kind != "loop" for r in value.readers)
    bytes_ = value.spec.nbytes * 1.1 ** min(max(far, 1), _FARTHEST)
    return int(bytes_ * (1 if materialized else 2))


def _recipe(value: Value, number: Mapping[Value, int], anew: Container[int]) -> Recipe:
    """How a value beyond the cut is computed from what lies in memory."""
    recipe = Recipe()
    seen: set[Value] = set()
    stack = [value]
    while stack:
        at = stack.pop()
        if at in seen or at.node is None:
            continue
        seen.add(at)
        recipe.ops += (at.node.op, *at.node.inlined)
        for source, spec in at.node.reads:
            if number.get(source, -1) in anew:
                stack.append(source)
            else:
                recipe.add(source, spec)
    return recipe


def is_cheap(node: Node) -> bool:
    """Whether a node may be computed twice: an elementwise loop without random numbers."""
    part = node.part
    return part is not None and part.loop == "pointwise" and not part.random


def recipe_of(value: Value, stored: Callable[[Value], bool], until: int) -> Recipe | None:
    """How `value` is computed inside its kernel; None if a source is overwritten too early.

    Args:
        value: made by an elementwise loop.
        stored: whether a value is in memory anyway, so that it can be read.
        until: segment in which the sources must still be there.
    """
    assert value.node is not None
    group = value.node.group
    recipe = Recipe()
    seen: set[Node] = set()
    stack = [value.node]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        recipe.ops += (node.op, *node.inlined)
        for source, spec in node.reads:
            maker = source.node
            inside = maker is not None and maker.group is group
            if inside and maker is not None and is_cheap(maker) and not stored(source):
                stack.append(maker)
                continue
            if not source.lasts(until):
                return None
            recipe.add(source, spec)
    return recipe


def replace_reads(node: Node, known: Mapping[Value, Recipe]) -> None:
    """Let a loop compute the values in `known` from their sources instead of reading them.

    A value that is read several times is computed as often only where each read is of another
    element (`Node.shifts`); equal expressions of one element are one.
    """
    reads: list[tuple[Value, TensorSpec]] = []
    have: set[tuple[Value, TensorSpec]] = set()
    for value, spec in node.reads:
        recipe = known.get(value)
        pairs = [(value, spec)]
        if recipe is not None:
            pairs = [(v, read_as(s, value, spec)) for v, s in recipe.sources.items()]
            value.readers.pop(node, None)
            node.write_in(recipe.ops)
        for pair in pairs:
            if pair in have:
                continue
            have.add(pair)
            reads.append(pair)
            if recipe is not None:
                pair[0].readers[node] = None
    node.reads = reads


def read_as(source: TensorSpec, value: Value, spec: TensorSpec) -> TensorSpec:
    """How a source is read where only the part `spec` of `value` is computed from it."""
    if spec.numel >= value.spec.numel or source.numel <= spec.numel:
        return source
    return replace(source, shape=(spec.numel,), stride=(1,))
