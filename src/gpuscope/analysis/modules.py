"""The step by module: self and total device time, forward and backward, work and parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpuscope.analysis.breakdown import Rows
from gpuscope.analysis.columns import sums
from gpuscope.analysis.types import ModuleShare
from gpuscope.program.types import ModuleInfo, Program

_OUTSIDE = ("optimizer", "input", "other")
"""Phases whose work belongs to no module; each becomes a row "(phase)" of its own."""


@dataclass(slots=True)
class _Node:
    path: str
    class_name: str = ""
    parameters: int = 0
    self_s: float = 0.0
    forward_s: float = 0.0
    backward_s: float = 0.0
    flops: float = 0.0
    held_bytes: int | None = None
    children: list[_Node] = field(default_factory=list)


def module_shares(
    rows: Rows, program: Program | None, held_bytes: Mapping[str, int] | None = None
) -> tuple[ModuleShare, ...]:
    """Return the module tree in depth-first order, children in the model's order.

    Args:
        rows: the step's events.
        program: what was captured, where it is known.
        held_bytes: memory at the peak by the module that owns or made it; None where unknown.

    Work of the optimizer, of input copies and of no phase stands in rows "(optimizer)",
    "(input)", "(other)" beside the root, so that the rows of depth 0 add up to the device's busy
    time. Parameters that modules share count in each, but once at the root. Empty where no
    operator is known.
    """
    if not rows.ops.ops:
        return ()
    nodes = _tree(program.modules if program else ())
    outside: dict[str, _Node] = {}
    for module, phase, time, flops in _sums(rows):
        if phase in _OUTSIDE:
            node = outside.setdefault(phase, _Node(f"({phase})"))
        else:
            node = _node(nodes, module)
        node.self_s += time
        node.flops += flops
        if phase == "forward":
            node.forward_s += time
        elif phase == "backward":
            node.backward_s += time
    _hold(nodes, held_bytes)
    whole = program.parameters if program and program.parameters else None
    tops = [nodes[""], *(outside[phase] for phase in _OUTSIDE if phase in outside)]
    shares = [share for top in tops for share in _walk(top, 0)]
    if whole is not None:
        shares[0] = replace(shares[0], parameters=whole)
    return tuple(shares)


def _hold(nodes: dict[str, _Node], held_bytes: Mapping[str, int] | None) -> None:
    """Give each module what it holds at the peak; what none of the tree has, the next above."""
    if held_bytes is None:
        return
    for node in nodes.values():
        node.held_bytes = 0
    for path, size in held_bytes.items():
        while path not in nodes:
            path = path.rpartition(".")[0]
        node = nodes[path]
        node.held_bytes = (node.held_bytes or 0) + size


def _sums(rows: Rows) -> Iterator[tuple[str, str, float, float]]:
    """Yield (module, phase, seconds, flops) for each pair that has events."""
    ops, work = rows.ops, rows.work
    width = len(ops.phase.table)
    codes = ops.module.take(work.op) * width + ops.phase.take(work.op)
    n = len(ops.module.table) * width
    count = np.bincount(codes, minlength=n)
    time = sums(codes, work.attributed_ns, n) * rows.seconds
    flops = sums(codes, rows.flops, n) / work.window.steps
    for i in np.flatnonzero(count):
        module, phase = divmod(int(i), width)
        # Code 0 is the top level ("") as well as an event without an operator.
        path = ops.module.table[module] if module else ""
        label = ops.phase.table[phase] if phase else "other"
        yield path, label, float(time[i]), float(flops[i])


def _tree(modules: Sequence[ModuleInfo]) -> dict[str, _Node]:
    nodes: dict[str, _Node] = {"": _Node("")}
    for info in modules:
        node = _node(nodes, info.path)
        node.class_name, node.parameters = info.class_name, info.parameters
    return nodes


def _node(nodes: dict[str, _Node], path: str) -> _Node:
    """Return the node of a path; makes it, and its ancestors, where missing."""
    found = nodes.get(path)
    if found is None:
        found = nodes[path] = _Node(path)
        _node(nodes, path.rpartition(".")[0]).children.append(found)
    return found


def _walk(node: _Node, depth: int) -> list[ModuleShare]:
    below = [_walk(child, depth + 1) for child in node.children]
    heads = [rows[0] for rows in below]
    own = ModuleShare(
        path=node.path,
        class_name=node.class_name,
        depth=depth,
        time_s=node.self_s + sum(head.time_s for head in heads),
        self_s=node.self_s,
        forward_s=node.forward_s + sum(head.forward_s for head in heads),
        backward_s=node.backward_s + sum(head.backward_s for head in heads),
        flops=node.flops + sum(head.flops for head in heads),
        parameters=node.parameters + sum(head.parameters for head in heads),
        peak_bytes=None
        if node.held_bytes is None
        else node.held_bytes + sum(head.peak_bytes or 0 for head in heads),
    )
    return [own, *(share for rows in below for share in rows)]


def fold_layers(tree: Iterable[ModuleShare]) -> tuple[ModuleShare, ...]:
    """Merge equal sibling layers: h.0 ... h.11 become "h.{0..11}" with count 12.

    Siblings are merged where their paths differ only in a last part that counts up by one and
    they have the same class and the same parameters, as have all modules below them. A merged
    row holds the sums over its layers; `count` says how many there are.
    """
    rows = list(tree)
    return tuple(_fold(rows))


def _fold(rows: list[ModuleShare]) -> list[ModuleShare]:
    """Fold a list of subtrees that stand beside each other, in depth-first order."""
    folded: list[ModuleShare] = []
    for run in _runs(_subtrees(rows)):
        merged = run[0] if len(run) == 1 else _merge(run)
        folded.append(merged[0])
        folded.extend(_fold(merged[1:]))
    return folded


def _subtrees(rows: list[ModuleShare]) -> list[list[ModuleShare]]:
    trees: list[list[ModuleShare]] = []
    for row in rows:
        if not trees or row.depth <= trees[-1][0].depth:
            trees.append([row])
        else:
            trees[-1].append(row)
    return trees


def _runs(trees: list[list[ModuleShare]]) -> Iterator[list[list[ModuleShare]]]:
    """Yield maximal runs of equal layers whose numbers follow each other."""
    run: list[list[ModuleShare]] = []
    for tree in trees:
        if run and not _follows(run[-1], tree):
            yield run
            run = []
        run.append(tree)
    if run:
        yield run


def _number(path: str) -> int | None:
    last = path.rpartition(".")[2]
    return int(last) if last.isdecimal() else None


def _shape(tree: list[ModuleShare]) -> list[tuple[str, str, int]]:
    """What makes layers equal: relative paths, classes and parameters of all their modules."""
    prefix = len(tree[0].path)
    return [(row.path[prefix:], row.class_name, row.parameters) for row in tree]


def _follows(before: list[ModuleShare], tree: list[ModuleShare]) -> bool:
    first, second = _number(before[0].path), _number(tree[0].path)
    if first is None or second is None or second != first + 1:
        return False
    return _shape(before) == _shape(tree)


def _merge(run: list[list[ModuleShare]]) -> list[ModuleShare]:
    parent, _, first = run[0][0].path.rpartition(".")
    name = f"{{{first}..{_number(run[-1][0].path)}}}"
    path = f"{parent}.{name}" if parent else name
    old = len(run[0][0].path)
    return [_sum(rows, path + rows[0].path[old:]) for rows in zip(*run, strict=True)]


def _sum(rows: tuple[ModuleShare, ...], path: str) -> ModuleShare:
    return replace(
        rows[0],
        path=path,
        time_s=sum(row.time_s for row in rows),
        self_s=sum(row.self_s for row in rows),
        forward_s=sum(row.forward_s for row in rows),
        backward_s=sum(row.backward_s for row in rows),
        flops=sum(row.flops for row in rows),
        parameters=sum(row.parameters for row in rows),
        peak_bytes=None if rows[0].peak_bytes is None else sum(row.peak_bytes or 0 for row in rows),
        count=sum(row.count for row in rows),
    )
