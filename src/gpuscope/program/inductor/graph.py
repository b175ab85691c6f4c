"""What a compiled step is made of: values, the nodes that make them, kernels of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from gpuscope.program.inductor.lowering import Part, base_name
from gpuscope.program.inductor.operator_sorts import SHIFTING
from gpuscope.program.types import Op, TensorSpec

Kind = Literal["loop", "library", "outside"]

LONGEST_EXPRESSION = 30
"""`realize_opcount_threshold` (torch/_inductor/config.py)."""


def lies_across(spec: TensorSpec) -> bool:
    """Whether neighbours along the last dimension are apart in memory.

    So lies what a convolution made once its channels are taken for the last dimension, and all that
    is added to it: results keep the order of their operands' strides.
    """
    steps = [step for size, step in zip(spec.shape, spec.stride, strict=True) if size > 1]
    return bool(steps) and steps[-1] > 1


@dataclass(slots=True, eq=False, repr=False)
class Value:
    """Data that one node made (or that was there before the step).

    Attributes:
        storage: where it lies.
        spec: as it was made.
        node: who made it; None if it was there before.
        readers: nodes that read it.
        overwritten_in: segment in which a later value takes its storage; None if none does.
        kept: must be in memory whatever fuses: it outlives the compiled region.
        saved: the backward pass reads it from memory.
        whole_bytes: of all its memory, where more is known than what is first read.
    """

    storage: int
    spec: TensorSpec
    node: Node | None = None
    readers: dict[Node, None] = field(default_factory=dict)
    overwritten_in: int | None = None
    kept: bool = False
    saved: bool = False
    whole_bytes: int = 0

    def overlaps(self, spec: TensorSpec, segment: int) -> bool:
        """Whether what is read as `spec` is read by others of the same graph too.

        Nothing says which part of a value is read. Where all parts together are no more than the
        value, as those of queries, keys and values beside each other, they are different ones.
        """
        whole = self.whole_bytes or self.spec.touched_bytes
        if spec.touched_bytes >= whole:
            return True
        inside = (node for node in self.readers if node.segment == segment)
        asked = {(node, s) for node in inside for v, s in node.reads if v is self}
        return sum(s.touched_bytes for _, s in asked) > whole

    def lasts(self, segment: int) -> bool:
        """Whether it can still be read at the end of a segment."""
        return self.overwritten_in is None or self.overwritten_in > segment


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """One loop nest, one library call, or one operator outside of the compiled region.

    Attributes:
        number: position among the nodes.
        op: the operator that it belongs to, its arguments as they are to be called.
        kind: loop (can be fused), library, or outside.
        part: the loop nest; None for the others.
        segment: number of the stretch of one compiled graph that it lies in; outside nodes have
            one of their own.
        reads: values with how they are read.
        writes: values it makes.
        after: nodes of the same segment that must come first though none of their data is read.
        over: values that it overwrites, wholly or in part.
        group: the kernel that it is in.
        reduced: inside this kernel it needs the result of a reduction, or is one.
        late: it runs in the second kernel of a split reduction, or after a scatter.
        inlined: operators whose loops were written into this one, as often as they are computed
            for different elements.
    """

    number: int
    op: Op
    kind: Kind
    part: Part | None
    segment: int
    reads: list[tuple[Value, TensorSpec]] = field(default_factory=list)
    writes: list[Value] = field(default_factory=list)
    after: list[Node] = field(default_factory=list)
    over: list[Value] = field(default_factory=list)
    group: Group | None = None
    reduced: bool = False
    late: bool = False
    inlined: list[Op] = field(default_factory=list)

    @property
    def shifts(self) -> bool:
        """Whether it reads other elements than the one it makes, each by an expression apart."""
        return any(base_name(op) in SHIFTING for op in (self.op, *self.inlined))

    def write_in(self, ops: Iterable[Op]) -> None:
        """Let it compute more operators; equal ones of one element once."""
        if self.shifts:
            self.inlined += ops
            return
        held = {id(op): op for op in (self.op, *self.inlined, *ops)}
        self.inlined = list(held.values())[1:]

    @property
    def long(self) -> bool:
        """Whether its expression is so long that its result becomes a buffer.

        `has_large_inner_fn` (torch/_inductor/ir.py): reads count as operators.
        """
        return 1 + len(self.inlined) + len(self.reads) > LONGEST_EXPRESSION

    def before(self) -> Iterator[Node]:
        """Nodes that must come first."""
        for value, _ in self.reads:
            if value.node is not None:
                yield value.node
        yield from self.after


@dataclass(slots=True, eq=False, repr=False)
class Group:
    """A kernel in the making: nodes, the level that orders kernels, and the loop sizes.

    Attributes:
        level: larger than that of every kernel it depends on.
        rows, columns, inner: as in `Part`; columns == 1 while it has no reduction.
        mixed: reduces along rows and across them at once.
    """

    level: int
    segment: int
    rows: int = 1
    columns: int = 1
    inner: bool = True
    mixed: bool = False
    nodes: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Graph:
    """The step as nodes in the order the host issued them.

    Attributes:
        nodes: all nodes.
        last: the value that each storage holds at the end of the step.
        resized: bytes of storages that the compiler makes larger or smaller, by id.
        made: specs of storages that only the compiler makes, by id, with the operator.
        held: those of `made` that autograd holds until the compiled backward pass has ended.
        breaks: places where the host waits in the middle of compiled code.
        highest: largest id of a storage in use.
    """

    nodes: list[Node] = field(default_factory=list)
    last: dict[int, Value] = field(default_factory=dict)
    resized: dict[int, int] = field(default_factory=dict)
    made: dict[int, tuple[TensorSpec, Op]] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)
    breaks: int = 0
    highest: int = 0

    def fresh(self) -> int:
        """An id for memory that the captured program does not have."""
        self.highest += 1
        return self.highest
