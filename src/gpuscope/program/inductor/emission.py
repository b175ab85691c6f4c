"""Kernels back into operators: their order, what they read and write, and when memory lives."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from math import ceil
from operator import attrgetter
from typing import Any

from gpuscope.program.inductor.computations import computations
from gpuscope.program.inductor.graph import Graph, Group, Node, Value, lies_across
from gpuscope.program.inductor.grouping import reads_across
from gpuscope.program.inductor.lowering import base_name
from gpuscope.program.inductor.operator_sorts import NORMS, TWICE
from gpuscope.program.inductor.splitting import UNITS
from gpuscope.program.types import FUSED, Op, Program, Storage, TensorSpec


@dataclass(frozen=True, slots=True)
class Emitted:
    """One operator of the compiled step.

    Attributes:
        op: the operator, its index in the compiled step.
        order: index of the last captured operator that it stands for.
    """

    op: Op
    order: int


def emit(program: Program, graph: Graph, nodes: Iterable[Node]) -> Program:
    """The compiled step of grouped nodes."""
    emitted: list[Emitted] = []
    for group in _in_order(nodes):
        order = max(n.op.index for n in group.nodes)
        emitted.extend(Emitted(made, order) for made in _operators(group, graph, len(emitted)))
    emitted = _with_waits(program, emitted)
    return replace(
        program, ops=tuple(e.op for e in emitted), storages=_storages(program, graph, emitted)
    )


def _with_waits(program: Program, emitted: list[Emitted]) -> list[Emitted]:
    """What streams wait for, under the new numbers; those of the step before count from its end."""
    if not any(e.op.waits for e in emitted):
        return emitted
    new = _new_indices(emitted, len(program.ops))
    before = [0, *new[1:]]
    count, old = len(emitted), len(program.ops)

    def moved(wait: int) -> int:
        at = wait if wait >= 0 else old + wait
        index = max(before[min(at + 1, old)] - 1, 0)
        return index if wait >= 0 else index - count

    return [
        Emitted(replace(e.op, waits=tuple(sorted({moved(w) for w in e.op.waits}))), e.order)
        if e.op.waits
        else e
        for e in emitted
    ]


def _in_order(nodes: Iterable[Node]) -> Iterator[Group]:
    """Groups so that each comes after what it needs, else as the host issued them."""
    segment: list[Group] = []
    for node in nodes:
        group = node.group
        assert group is not None
        if segment and segment[0].segment != node.segment:
            yield from _sorted(segment)
            segment = []
        if group.nodes[0] is node:
            segment.append(group)
    yield from _sorted(segment)


def _sorted(groups: list[Group]) -> Iterator[Group]:
    if len(groups) == 1:  # so does what is not compiled come, operator by operator
        yield groups[0]
        return
    members = set(groups)
    waits: dict[Group, int] = {}
    followers: dict[Group, list[Group]] = {}
    for group in groups:
        before = {
            earlier.group
            for node in group.nodes
            for earlier in node.before()
            if earlier.group is not group and earlier.group in members
        }
        waits[group] = len(before)
        for earlier in before:
            if earlier is not None:
                followers.setdefault(earlier, []).append(group)
    # A kernel comes where its first loop was, as soon as all that it reads is there.
    ready = [(g.nodes[0].number, number) for number, g in enumerate(groups) if not waits[g]]
    heapq.heapify(ready)
    number_of = {g: number for number, g in enumerate(groups)}
    while ready:
        _, number = heapq.heappop(ready)
        group = groups[number]
        yield group
        for follower in followers.get(group, ()):
            waits[follower] -= 1
            if not waits[follower]:
                heapq.heappush(ready, (follower.nodes[0].number, number_of[follower]))


def _operators(group: Group, graph: Graph, index: int) -> tuple[Op, ...]:
    """What a kernel is called as; the first of them at `index` of the compiled step."""
    first = group.nodes[0]
    if first.kind == "loop":
        made = _fused(group, index)
        return () if made is None else _with_sums(made, group, graph)
    op = first.op
    inputs = tuple(_at(spec, value) for value, spec in first.reads)
    if first.kind == "outside":
        # As `replace` would make it, in half the time: uncompiled code has tens of thousands.
        return (Op(index, op.name, op.overload, inputs, *_REST(op)),)
    # Generated code calls the library directly: no module, no autograd, no Python API.
    return (
        replace(
            op,
            index=index,
            inputs=inputs,
            autograd=False,
            module_calls=0,
            python_calls=0,
            python_instructions=0,
            autograd_nodes=0,
        ),
    )


_REST: Callable[[Op], tuple[Any, ...]] = attrgetter(*(each.name for each in fields(Op)[4:]))
"""All of an operator but its index, name, overload and inputs."""


def _with_sums(made: Op, group: Group, graph: Graph) -> tuple[Op, ...]:
    """A kernel, and the sums that end its reductions across rows.

    A kernel that reduces both along rows and across them (`MixOrderReduction`) writes a partial
    result for every few rows; the generated wrapper adds those up by `Tensor.sum` (`_pick_split_`
    `size` and what follows, torch/_inductor/codegen/simd.py).
    """
    if not group.mixed:
        return (made,)
    across = {
        value.storage
        for node in group.nodes
        if node.part is not None and node.part.loop == "reduction" and not node.part.inner
        for value in node.writes
    }
    rows = max(group.rows, 1)
    each = min(max(_power_of_2(rows // (8 * UNITS)), 16), 128)
    outputs, sums = [], list[Op]()
    for spec in made.outputs:
        if spec.storage not in across:
            outputs.append(spec)
            continue
        partial = TensorSpec(
            (-(-rows // each), spec.numel), (spec.numel, 1), "float32", "device", graph.fresh()
        )
        outputs.append(partial)
        total = Op(
            index=made.index + 1 + len(sums),
            name="aten::sum",
            overload="dim_IntList",
            inputs=(partial,),
            outputs=(spec,),
            args={"dim": (0,)},
            module=made.module,
            phase=made.phase,
            stream=made.stream,
            region=made.region,
        )
        graph.made[partial.storage] = partial, total
        sums.append(total)
    return (replace(made, outputs=tuple(outputs)), *sums)


def _power_of_2(value: int) -> int:
    return 1 << (max(value, 1).bit_length() - 1)


def _at(spec: TensorSpec, value: Value) -> TensorSpec:
    return spec if spec.storage == value.storage else replace(spec, storage=value.storage)


def _needed(group: Group) -> list[Node]:
    """Nodes of a group whose results are stored, and those that they are computed from."""
    wanted: set[Value] = set()
    found = []
    for node in reversed(group.nodes):
        if any(_stored(v, group) or v in wanted for v in node.writes):
            found.append(node)
            wanted.update(value for value, _ in node.reads)
    found.reverse()
    return found


def _stored(value: Value, group: Group) -> bool:
    return value.kept or any(reader.group is not group for reader in value.readers)


def _fused(group: Group, index: int) -> Op | None:
    nodes = _needed(group)
    if not nodes:
        return None
    members = set(nodes)
    outputs: dict[int, TensorSpec] = {}
    for node in nodes:
        for value in node.writes:
            if _stored(value, group):
                held = outputs.get(value.storage)
                if held is None or value.spec.nbytes >= held.nbytes:
                    outputs[value.storage] = value.spec
    ops = {id(op): op for n in nodes for op in (n.op, *n.inlined)}.values()
    computed = computations(nodes)
    last = nodes[-1].op
    passes, again = _passes(group, nodes)
    parts = [n.part for n in nodes if n.part is not None]
    reduces = [p for p in parts if p.loop == "reduction"]
    inputs, written = _inputs(nodes, members), tuple(outputs.values())
    apart = not group.mixed and reads_across(nodes, group.rows * group.columns)
    return Op(
        index=index,
        name=FUSED,
        inputs=inputs,
        outputs=written,
        args={
            "operators": tuple(sorted({base_name(op) for op in ops})),
            "count": len(ops),
            "computed": computed,
            "rows": group.rows,
            "columns": group.columns,
            "reduction": _reduction(group) if reduces else "",
            "splits": 1 if group.mixed else max((p.splits for p in reduces), default=1),
            "finals": sum(_finals(n) for n in nodes),
            "reductions": sum(2 if base_name(n.op) in TWICE else 1 for n in nodes if _reduces(n)),
            "passes": passes,
            "again_bytes": again,
            "across": (_across(group, inputs), _across(group, written)) if apart else (0, 0),
            "random": any(p.random for p in parts),
        },
        module=Counter(op.module for op in ops).most_common(1)[0][0],
        phase=last.phase,
        stream=last.stream,
        recomputed=all(op.recomputed for op in ops),
        region=last.region,
    )


def _reduces(node: Node) -> bool:
    return node.part is not None and node.part.loop == "reduction"


def _across(group: Group, specs: Iterable[TensorSpec]) -> int:
    """Bytes of large tensors whose rows' values are apart in memory."""
    least = group.rows * group.columns
    return sum(t.touched_bytes for t in specs if t.numel >= least and lies_across(t))


def _finals(node: Node) -> int:
    """Kernels that add up the pieces of a split reduction: one a sum; a variance is one."""
    if node.part is None or node.part.splits == 1:
        return 0
    return 1 if base_name(node.op) in NORMS else len(node.writes)


def _reduction(group: Group) -> str:
    if group.mixed:
        return "both"
    return "inner" if group.inner else "outer"


def _passes(group: Group, nodes: list[Node]) -> tuple[int, int]:
    """How often a kernel goes over its rows, and the bytes that it reads anew in later passes.

    A row is gone over once for each reduction that waits for another, and once more if elements
    need the last one's results.
    """
    depth: dict[Node, int] = {}
    passes = 1
    read_in: dict[Value, set[int]] = {}
    for node in nodes:
        part = node.part
        own = max((depth[n] for n in node.before() if n in depth), default=0)
        stage = own + 1
        if part is not None and part.loop == "reduction":
            own += 1
            passes = max(passes, own)
        elif part is not None and own and part.rows == group.rows * group.columns:
            passes = max(passes, stage)
        depth[node] = own
        for value, _ in node.reads:
            if value.node not in depth:
                read_in.setdefault(value, set()).add(stage)
    again = sum(value.spec.nbytes * (len(stages) - 1) for value, stages in read_in.items())
    return passes, again


def _inputs(nodes: Iterable[Node], members: set[Node]) -> tuple[TensorSpec, ...]:
    """What a kernel reads from memory, each value once; slices of one value add up."""
    best: dict[Value, TensorSpec] = {}
    total: dict[Value, int] = {}
    for node in nodes:
        for value, spec in node.reads:
            if value.node is not None and value.node in members:
                continue
            held = best.get(value)
            if held is None or spec.touched_bytes > held.touched_bytes:
                best[value] = spec
            total[value] = total.get(value, 0) + spec.touched_bytes
    return tuple(_whole(value, spec, total[value]) for value, spec in best.items())


def _whole(value: Value, spec: TensorSpec, read_bytes: int) -> TensorSpec:
    full = value.spec
    if read_bytes > spec.touched_bytes and spec.touched_bytes < full.nbytes and full.is_dense:
        count = min(full.numel, ceil(read_bytes / full.itemsize))
        if count == full.numel:
            return _at(full, value)
        return TensorSpec((count,), (1,), full.dtype, full.device, value.storage)
    return _at(spec, value)


def _storages(program: Program, graph: Graph, emitted: list[Emitted]) -> tuple[Storage, ...]:
    """Lives of the memory under the new order: freed after the last use, as generated code does.

    Memory that the captured program held beyond the compiled region keeps its end.
    """
    written, used = _uses(emitted)
    freed_at = _new_indices(emitted, len(program.ops))
    end = 1 + max((e.order for e in emitted if e.op.phase in ("forward", "backward")), default=-1)
    captured = {t.storage for op in program.ops if not op.view for t in op.outputs}
    count = len(emitted)
    out = []
    for s in program.storages:
        if s.born >= 0 and s.id in captured and s.id not in used:
            continue
        last = used.get(s.id, -1)
        died = s.died
        if died is not None:
            held = s.born < 0 or died >= end or s.id not in used
            died = max(freed_at[min(died, len(program.ops))], last + 1) if held else last + 1
        born = s.born
        if born >= 0:
            born = written.get(s.id, min(freed_at[born], max(count - 1, 0)))
            died = died if died is None else max(died, born + 1)
        nbytes = graph.resized.get(s.id, s.nbytes)
        out.append(Storage(s.id, nbytes, s.category, born, died, s.module, s.label))
    out.extend(_made(graph, emitted, written, used))
    return tuple(out)


def _uses(emitted: Iterable[Emitted]) -> tuple[dict[int, int], dict[int, int]]:
    """Index of the first operator that writes each storage, and of the last that uses it."""
    written: dict[int, int] = {}
    used: dict[int, int] = {}
    for e in emitted:
        for t in e.op.outputs:
            written.setdefault(t.storage, e.op.index)
            used[t.storage] = e.op.index
        for t in e.op.inputs:
            used[t.storage] = e.op.index
    return written, used


def _new_indices(emitted: Iterable[Emitted], count: int) -> list[int]:
    """For each captured index, how many emitted operators come before it."""
    before = [0] * (count + 1)
    for e in emitted:
        before[e.order + 1] = max(before[e.order + 1], e.op.index + 1)
    for i in range(1, count + 1):
        before[i] = max(before[i], before[i - 1])
    return before


def _made(
    graph: Graph, emitted: list[Emitted], written: dict[int, int], used: dict[int, int]
) -> Iterator[Storage]:
    """Memory that only the compiled step has: row statistics, padded operands."""
    for number, (spec, op) in graph.made.items():
        born = written.get(number)
        if born is None:
            continue
        last = used[number]
        if number in graph.held:
            region = emitted[born].op.region
            last = max(
                e.op.index for e in emitted if e.op.region == region and e.op.phase == "backward"
            )
        crosses = emitted[born].op.phase == "forward" and emitted[last].op.phase == "backward"
        yield Storage(
            number,
            spec.nbytes,
            "activation" if crosses else "temporary",
            born,
            last + 1,
            op.module,
            f"{op.name} in a kernel",
        )
