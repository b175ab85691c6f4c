"""What `torch.compile` makes of a captured step: fused kernels, views and temporaries gone.

The captured program is eager; here it becomes what Inductor would run, by the rules of its passes
(Ansel et al., "PyTorch 2", ASPLOS 2024, section 4; the torch 2.13 sources named in
`gpuscope.program.inductor`). Matrix products, convolutions, attention and sorts stay calls to
libraries; what no compiled function calls stays eager, usually the optimizer.

Left out: epilogues fused into Triton matrix products under max-autotune, and reuse of a dying
buffer for a kernel's result.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.program.inductor.duplication import duplicate
from gpuscope.program.inductor.emission import emit
from gpuscope.program.inductor.graph import Node
from gpuscope.program.inductor.grouping import Grouper
from gpuscope.program.inductor.inlining import inline
from gpuscope.program.inductor.layout import channels_last
from gpuscope.program.inductor.merging import join
from gpuscope.program.inductor.optimizers import merge_optimizers
from gpuscope.program.inductor.partition import live_nodes, recompute
from gpuscope.program.inductor.regions import compiled_operators, unwanted_results
from gpuscope.program.inductor.values import build_graph
from gpuscope.program.types import FUSED, WHOLE_STEP, Op, Program

__all__ = ["FUSED", "fuse"]

WITHOUT_INDUCTOR = frozenset(["", "cudagraphs"])
"""Values of `Program.compiled` whose kernels are the eager ones."""


def fuse(program: Program) -> Program:
    """The program as Inductor would run it; unchanged where it was not asked to.

    Every generated kernel is one `gpuscope::fused` operator: its inputs are what the kernel reads
    from memory, its outputs what it writes there. Its `args`: `operators` (names), `count` (how
    many), `rows` and `columns` (of the loops; columns == 1 without a reduction), `reduction` ("",
    "inner", "outer" or "both"), `splits` (pieces of each result, 1 without), `finals` (kernels that
    end their sums), `reductions` (of each value, one after the other), `passes` (over a row),
    `again_bytes` (read anew in later ones), `random`, `beside` (tensors of a list side by side: an
    element is of one of them).
    Storages live from the first write to the last use; those that no kernel writes are gone.
    """
    if program.compiled in WITHOUT_INDUCTOR or any(op.name == FUSED for op in program.ops):
        return program
    fused, breaks = _fused(program)
    made = replace(program, ops=fused.ops, storages=fused.storages)
    return replace(made, assumptions=(*program.assumptions, *_assumptions(program, breaks)))


_FUSED: list[tuple[Program, Program, int]] = []
"""The last programs that were fused, what became of them, and their graph breaks: the modes of a
compiler differ in how its kernels are brought to the device, and a report asks for many devices."""

_REMEMBERED = 4


def _fused(program: Program) -> tuple[Program, int]:
    """What the compiler makes of operators and storages, and how often its graph breaks."""
    for known, made, breaks in _FUSED:
        alike = (known.compiled == WHOLE_STEP) == (program.compiled == WHOLE_STEP)
        if known.ops is program.ops and known.storages is program.storages and alike:
            return made, breaks
    merged = merge_optimizers(channels_last(program, compiled_operators(program)), FUSED)
    graph = build_graph(merged)
    stretches = groupby(live_nodes(graph), key=_is_backward)
    for backward, stretch in stretches:
        if backward:
            recompute(stretch)
    nodes = inline(live_nodes(graph))
    grouper = Grouper()
    for _, stretch in groupby(nodes, key=_is_backward):
        members = list(stretch)
        grouper.add(members)
        duplicate(members)
        join(members)
    made = emit(program, graph, nodes)
    _FUSED.append((program, made, graph.breaks))
    del _FUSED[:-_REMEMBERED]
    return made, graph.breaks


def _is_backward(node: Node) -> bool:
    return node.op.phase == "backward"


def _assumptions(program: Program, breaks: int) -> list[Text]:
    marked = any(op.region for op in program.ops)
    which = (
        Text("what compiled functions call")
        if marked
        else Text("the whole forward and backward pass")
    )
    said = [
        Text(
            "The device's compiler makes one graph of the step, as XLA does; Inductor's rules of "
            "fusion stand for its own, which were not run."
        )
        if program.compiled == WHOLE_STEP
        else Text(
            "torch.compile ({compiled}): kernels are fused by the rules of its compiler, Inductor, "
            "in {which}; no compiler was run.",
            compiled=program.compiled,
            which=which,
        )
    ]
    if program.compiled.startswith("max-autotune"):
        said.append(
            Text(
                "max-autotune: the compiler measures Triton's matrix products against the "
                "library's on the device; the library's are taken, so the step may be a little "
                "faster."
            )
        )
    count = sum(found.count for found in program.graph_breaks) or breaks
    if count:
        lines = ", ".join(f.site for f in program.graph_breaks if f.site)
        said.append(
            Text(
                "The host reads a value {count} times inside the compiled function: each is a "
                "graph break{lines}.",
                count=count,
                lines=f" ({lines})" if lines else "",
            )
        )
    said.extend(_losses(program))
    return said


def _losses(program: Program) -> list[Text]:
    """What compiling costs this program, each with its cause."""
    said = []
    unwanted = [spec for specs in unwanted_results(program).values() for spec in specs]
    if unwanted:
        size = sum(spec.nbytes for spec in unwanted)
        said.append(
            Text(
                "The compiled function returns {size} that nobody differentiates (such as "
                "logits beside a loss): its backward pass is given zeros of that size to read. "
                "Return only what is used.",
                size=Bytes(size),
            )
        )
    if any(op.region and op.name == "aten::_softmax" and _is_scores(op) for op in program.ops):
        said.append(
            Text(
                "Attention runs unfused inside the compiled function, where a mask that is "
                "expanded along the keys, or wants a gradient, rules every fused kernel out: "
                "slower than a fused kernel, and it may make compiling a loss."
            )
        )
    return said


def _is_scores(op: Op) -> bool:
    shape = op.outputs[0].shape
    return len(shape) == 4 and shape[-1] >= 64 and shape[-2] >= 64 and op.phase == "forward"
