"""Who makes and who reads which data: the step as loops and values, without in-place writes.

A *value* is what one loop or library call made of a storage. Views are looked through; an operator
that writes in place makes a new value of the same storage, ordered after all readers of the old
one. Equal operators on equal values are kept once, as AOTAutograd's common-subexpression pass does
(autocast casts an activation once for each matrix product that reads it).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from gpuscope.program.inductor.graph import Graph, Kind, Node, Value
from gpuscope.program.inductor.lowering import Part, base_name, lower
from gpuscope.program.inductor.padding import Padding, padding_of
from gpuscope.program.inductor.regions import (
    COMPILED_PHASES,
    compiled_operators,
    in_graph_order,
    unwanted_results,
)
from gpuscope.program.types import RETURNED, Op, Phase, Program, TensorSpec

_ALLOCATIONS = frozenset(["empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"])


def build_graph(program: Program) -> Graph:
    """The nodes and values of a captured step."""
    builder = _Builder(program)
    for op in in_graph_order(program.ops):
        builder.add(op)
    builder.mark_kept(program)
    return builder.graph


class _Builder:
    def __init__(self, program: Program) -> None:
        self.graph = Graph()
        self.current = self.graph.last
        self.segment = 0
        self.phase: Phase = "other"
        highest = max((s.id for s in program.storages), default=0)
        for op in program.ops:
            for t in op.outputs:
                highest = max(highest, t.storage)
        self.graph.highest = highest
        self.sizes = {s.id: s.nbytes for s in program.storages}
        self.inside = compiled_operators(program)
        self.marked = any(op.region for op in program.ops)
        self.region = 0
        self.seeded = -1
        self.returned = unwanted_results(program)
        outliving = {s.id for s in program.storages if s.died is None}
        self.unshared = _mutated(program.ops) | outliving
        self.constants: dict[int, Hashable] = {}
        self.known: dict[Hashable, list[Value]] = {}
        self.padded: dict[Hashable, TensorSpec] = {}

    def add(self, op: Op) -> None:
        inside = op.index in self.inside
        if op.name == RETURNED:
            for spec in op.inputs:
                self._value(spec).kept = True
            return
        if op.view and inside:
            return
        if not inside:
            self._outside(op)
            return
        if (op.phase, op.region) != (self.phase, self.region):
            self._cut(op.phase, op.region)
            if op.phase == "backward":
                self._zeros(op)
        op = self._with_zeros(op)
        if base_name(op) in _ALLOCATIONS or self._constant(op):
            return
        parts = lower(op, self.graph.fresh)
        if parts:
            self._loops(op, parts)
            return
        padding = padding_of(op)
        self._library(self._pad(op, padding) if padding else op)

    def _constant(self, op: Op) -> bool:
        """A number made on the host: it is written into the code that uses it."""
        if op.inputs or any(t.shape or t.device == "device" for t in op.outputs):
            return False
        for spec in op.outputs:
            self.constants[spec.storage] = (op.name, spec.dtype, tuple(op.args.items()))
        return True

    def _zeros(self, op: Op) -> None:
        """Gradients that nobody gave: the compiled backward pass gets zeros, filled anew.

        Once a call, where its backward pass begins.
        """
        for spec in self.returned.pop(op.region, ()):
            zeros = replace(spec, storage=self.graph.fresh())
            fill = Op(
                index=op.index,
                name="aten::zeros",
                outputs=(zeros,),
                phase="backward",
                stream=op.stream,
                region=op.region,
            )
            self.graph.made[zeros.storage] = zeros, fill
            self.graph.held.add(zeros.storage)
            self._library(fill)
            self.zeros.append(zeros)

    def _with_zeros(self, op: Op) -> Op:
        """Add such zeros to the gradient that the rest of the graph makes of the same tensor."""
        if op.phase != "backward":
            return op
        for zeros in self.zeros:
            if any((t.numel, t.dtype) == (zeros.numel, zeros.dtype) for t in op.outputs):
                self.zeros.remove(zeros)
                return replace(op, inputs=(*op.inputs, zeros))
        return op

    def _cut(self, phase: Phase, region: int = 0) -> None:
        """A new compiled graph begins: nothing fuses or is shared across."""
        self.phase, self.region = phase, region
        self.zeros: list[TensorSpec] = []
        self.segment += 1
        self.known.clear()
        self.padded.clear()

    def _outside(self, op: Op) -> None:
        if op.sync and op.phase in COMPILED_PHASES and not self.marked:
            self.graph.breaks += 1
        self._cut("other")
        self._call(op, "outside")

    def _library(self, op: Op) -> None:
        self._call(op, "library")

    def _call(self, op: Op, kind: Kind) -> None:
        node = Node(len(self.graph.nodes), op, kind, None, self.segment)
        self.graph.nodes.append(node)
        self._read(node, op.inputs)
        written = op.outputs
        if not written and op.name.endswith("_"):
            written = op.inputs
        if not op.view:
            self._write(node, written)

    def _loops(self, op: Op, parts: tuple[Part, ...]) -> None:
        key = self._key(op, parts)
        if key is not None:
            same = self.known.get(key)
            if same is not None:
                for spec, value in zip(op.outputs, same, strict=True):
                    self.current[spec.storage] = value
                return
        outputs = {t.storage: t for t in op.outputs}
        for part in [stage for whole in parts for stage in self._stages(whole)]:
            if part.random:
                self._seeds(op)
            node = Node(len(self.graph.nodes), op, "loop", part, self.segment)
            self.graph.nodes.append(node)
            self._read(node, part.reads)
            self._write(node, part.writes)
            for spec in part.writes:
                captured = outputs.get(spec.storage)
                if captured is None:
                    self.graph.made[spec.storage] = spec, op
                elif captured.dtype != spec.dtype:
                    self.graph.resized[spec.storage] = spec.nbytes
        if key is not None:
            made = [self.current.get(t.storage) for t in op.outputs]
            if all(value is not None for value in made):  # a reserve of nothing is never written
                self.known[key] = [value for value in made if value is not None]

    def _stages(self, part: Part) -> tuple[Part, ...]:
        """A sum over everything, row by row first where a sum along rows is among its sources.

        It is then no pieces of its own but shares the kernel of those rows (`Reduction.num_splits`,
        torch/_inductor/ir.py): the gradient of a scale of all logits joins that of their softmax.
        """
        if part.rows != 1 or part.splits == 1 or len(part.writes) != 1:
            return (part,)
        sizes = self._sums_before(part)
        if sizes is None or sizes[0] == 1 or sizes[0] * sizes[1] != part.columns:
            return (part,)
        rows, columns = sizes
        partial = TensorSpec((rows, 1), (1, 1), "float32", "device", self.graph.fresh())
        along = replace(part, rows=rows, columns=columns, writes=(partial,))
        return along, replace(part, columns=rows, reads=(partial,))

    def _sums_before(self, part: Part) -> tuple[int, int] | None:
        """Rows and columns of the nearest sums that the elements are made from, if all agree."""
        values = {self._value(spec): None for spec in part.reads}
        while values:
            makers = [v.node for v in values if v.node is not None and v.node.part is not None]
            makers = [node for node in makers if node.segment == self.segment]
            sums = [n.part for n in makers if n.part is not None and n.part.loop == "reduction"]
            if sums:
                sizes = {(found.rows, found.columns) for found in sums}
                return sizes.pop() if len(sizes) == 1 and all(p.inner for p in sums) else None
            values = {value: None for node in makers for value, _ in node.reads}
        return None

    def _seeds(self, op: Op) -> None:
        """One call makes the seeds of all random numbers of a graph."""
        if self.seeded == self.segment:
            return
        self.seeded = self.segment
        seeds = TensorSpec((1,), (1,), "int64", "device", self.graph.fresh())
        call = Op(
            index=op.index,
            name="aten::randint",
            outputs=(seeds,),
            phase=op.phase,
            stream=op.stream,
            region=op.region,
        )
        self.graph.made[seeds.storage] = seeds, call
        self._library(call)

    def _key(self, op: Op, parts: tuple[Part, ...]) -> Hashable | None:
        """What makes two operators equal; None for those that must not be merged."""
        if any(part.random or part.loop == "scatter" for part in parts):
            return None
        if any(t.storage in self.unshared for t in op.outputs):
            return None
        if any(t.numel < self._value(t).spec.numel for t in op.inputs):
            return None  # a part: nothing says which one, and queries are beside keys
        reads = tuple(
            self.constants.get(t.storage) or (id(self._value(t)), t.shape, t.stride)
            for t in op.inputs
        )
        results = tuple((t.shape, t.stride, t.dtype) for t in op.outputs)
        key = (op.name, op.overload, reads, results, tuple(op.args.items()))
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def _pad(self, op: Op, padding: Padding) -> Op:
        """Aligned operands for a matrix product, each copied once a graph."""
        specs = list(op.inputs)
        for position, shape in padding.operands:
            spec = specs[position]
            key = (id(self._value(spec)), shape, spec.stride[-1] == 1)
            held = self.padded.get(key)
            if held is None:
                held = padding.padded(spec, shape, self.graph.fresh())
                self.padded[key] = held
                copy = replace(
                    op,
                    name="aten::constant_pad_nd",
                    overload="default",
                    inputs=(spec,),
                    outputs=(held,),
                    args={},
                    autograd=False,
                )
                self._loops(copy, (Part("pointwise", held.numel, 1, (spec,), (held,)),))
                self.graph.made[held.storage] = held, copy
            specs[position] = padding.like(held, shape, specs[position])
        out = padding.result(op.outputs[0])
        self.graph.resized[out.storage] = out.nbytes
        return replace(op, inputs=tuple(specs), outputs=(out, *op.outputs[1:]))

    def _value(self, spec: TensorSpec) -> Value:
        value = self.current.get(spec.storage)
        if value is None:
            value = Value(spec.storage, spec, whole_bytes=self.sizes.get(spec.storage, 0))
            self.current[spec.storage] = value
        return value

    def _read(self, node: Node, specs: Iterable[TensorSpec]) -> None:
        for spec in specs:
            value = self._value(spec)
            node.reads.append((value, spec))
            value.readers[node] = None

    def _write(self, node: Node, specs: Iterable[TensorSpec]) -> None:
        for spec in specs:
            old = self.current.get(spec.storage)
            if old is not None and old.storage == spec.storage:
                old.overwritten_in = node.segment
                old.kept = old.kept or spec.touched_bytes < old.spec.touched_bytes
                node.over.append(old)
                earlier = tuple(old.readers) if old.node is None else (*old.readers, old.node)
                node.after.extend(n for n in earlier if n.segment == node.segment and n is not node)
            value = Value(spec.storage, spec, node)
            self.current[spec.storage] = value
            node.writes.append(value)

    def mark_kept(self, program: Program) -> None:
        """Values that the world outside of the compiled region sees: state, gradients, results.

        A result that nobody reads is taken for one that the compiled function returns if it comes
        last, or if it is there when the last compiled function has ended.
        """
        nodes = self.graph.nodes
        end = 1 + max((n.op.index for n in nodes if n.kind != "outside"), default=-1)
        used = {t.storage: op.index for op in program.ops for t in (*op.inputs, *op.outputs)}
        for storage in program.storages:
            value = self.current.get(storage.id)
            if value is None:
                continue
            died = storage.died
            held = died is None or storage.born < 0
            if not held and died is not None and died >= end:
                held = not value.readers or died > used.get(storage.id, died) + 1
            value.kept = value.kept or held
        for last in {n.segment: n for n in nodes}.values():
            for value in last.writes:
                value.kept = value.kept or not value.readers


def _mutated(ops: Iterable[Op]) -> set[int]:
    """Storages that are written more than once."""
    written: set[int] = set()
    mutated: set[int] = set()
    for op in ops:
        if op.view:
            continue
        for t in op.outputs:
            (mutated if t.storage in written else written).add(t.storage)
        read = {t.storage for t in op.inputs}
        mutated.update(t.storage for t in op.outputs if t.storage in read)
        if not op.outputs and op.name.endswith("_"):
            mutated |= read
    return mutated
