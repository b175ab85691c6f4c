"""What `torch.compile` makes of a captured step: fused kernels, views and temporaries gone.

The captured program is eager; here it becomes what Inductor would run, by the rules of its passes
(Ansel et al., "PyTorch 2", ASPLOS 2024, section 4; the torch 2.13 sources named in
`gpuscope.program.inductor`). Matrix products, convolutions, attention and sorts stay calls to
libraries; the optimizer outside of the compiled function stays eager.

Left out: epilogues fused into Triton matrix products under max-autotune, layouts changed by the
compiler (channels-last convolutions), and reuse of a dying buffer for a kernel's result.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from gpuscope.program.inductor.duplication import duplicate
from gpuscope.program.inductor.emission import FUSED, emit
from gpuscope.program.inductor.grouping import Grouper
from gpuscope.program.inductor.inlining import inline
from gpuscope.program.inductor.layout import channels_last
from gpuscope.program.inductor.partition import live_nodes, recompute
from gpuscope.program.inductor.values import build_graph, compiled_operators
from gpuscope.program.types import Program

__all__ = ["FUSED", "fuse"]

WITHOUT_INDUCTOR = frozenset(["", "cudagraphs"])
"""Values of `Program.compiled` whose kernels are the eager ones."""


def fuse(program: Program) -> Program:
    """The program as Inductor would run it; unchanged where it was not asked to.

    Every generated kernel is one `gpuscope::fused` operator: its inputs are what the kernel reads
    from memory, its outputs what it writes there. Its `args`: `operators` (names), `count` (how
    many), `rows` and `columns` (of the loops; columns == 1 without a reduction), `reduction` ("",
    "inner", "outer" or "both"), `split` (made by two kernels), `passes` (over a row), `random`.
    Storages live from the first write to the last use; those that no kernel writes are gone.
    """
    if program.compiled in WITHOUT_INDUCTOR or any(op.name == FUSED for op in program.ops):
        return program
    graph = build_graph(channels_last(program, compiled_operators(program)))
    nodes = inline(live_nodes(graph))
    grouper = Grouper()
    for backward, stretch in groupby(nodes, key=lambda node: node.op.phase == "backward"):
        members = list(stretch)
        if backward:
            recompute(members)
        grouper.add(members)
        duplicate(members)
    fused = emit(program, graph, nodes)
    return replace(fused, assumptions=(*program.assumptions, *_assumptions(program, graph.breaks)))


def _assumptions(program: Program, breaks: int) -> list[str]:
    said = [
        f"torch.compile ({program.compiled}): kernels are fused by the rules of its compiler,"
        " Inductor, as if the whole forward and backward pass were compiled; no compiler was run."
    ]
    if breaks:
        said.append(
            f"The host reads a value of the device {breaks} times inside the compiled function:"
            " each is a graph break."
        )
    return said
