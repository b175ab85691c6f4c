"""How often a kernel computes each of its operators for an element.

Inductor writes the expression of a value into every loop that reads it, unless the value is a
buffer; within one loop equal expressions of the same element are computed once (`CSE`,
torch/_inductor/codegen/common.py). A table that is made of numbers alone, such as the sines and
cosines of rotary embeddings, is never a buffer: each kernel that uses it computes it anew for every
element, twice where a `cat` has two pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpuscope.program.inductor.graph import Node, Value
from gpuscope.program.inductor.lowering import base_name
from gpuscope.program.inductor.operator_sorts import COMPOSITE
from gpuscope.program.inductor.partition import is_cheap
from gpuscope.program.types import Op


def computations(nodes: list[Node]) -> tuple[tuple[str, int], ...]:
    """How often each operator is computed for an element, by name.

    Equal expressions of one element are computed once, however many loops ask; a loop that reads
    other elements computes what it reads of this kernel anew for each of its operands.
    """
    members = set(nodes)
    times: dict[int, int] = {}
    names: dict[int, str] = {}
    for node in nodes:
        found = Counter(id(op) for op in (node.op, *node.inlined))
        for op in node.inlined:
            names.setdefault(id(op), _elements_name(op))
        if node.part is not None and node.part.loop == "pointwise":
            names.setdefault(id(node.op), _elements_name(node.op))
        else:
            names[id(node.op)] = base_name(node.op)
        for key, count in found.items():
            times[key] = max(times.get(key, 0), count if node.shifts else 1)
        if node.shifts:
            for value, _ in node.reads:
                for op in _written_in(value, members):
                    times[id(op)] = times.get(id(op), 0) + 1
    total: Counter[str] = Counter()
    for key, count in times.items():
        total[names[key]] += count
    return tuple(sorted(total.items()))


def _written_in(value: Value, members: set[Node]) -> Iterator[Op]:
    """Operators of this kernel that make a value elementwise."""
    stack, seen = [value.node], set[Node]()
    while stack:
        node = stack.pop()
        if node is None or node in seen or node not in members or not is_cheap(node):
            continue
        seen.add(node)
        yield node.op
        yield from node.inlined
        stack += [source.node for source, _ in node.reads]


def _elements_name(op: Op) -> str:
    """What a loop over elements computes of an operator: "_softmax.elements" of its rows' numbers.

    "powf" where an exponent is no number, so that a library function computes it; "mul" of a
    division by a number (`div_prim`, torch/_inductor/lowering.py).
    """
    name = base_name(op)
    if name == "div" and len(op.inputs) == 1:
        return "mul"
    if name in COMPOSITE:
        return f"{name}.elements"
    return "powf" if name == "pow" and op.overload != "Tensor_Scalar" else name
