"""Which operators the compiler sees, in what order, and what its graphs return in vain."""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.program.types import RETURNED, WHOLE_STEP, Op, Phase, Program, TensorSpec

COMPILED_PHASES: frozenset[Phase] = frozenset(["forward", "backward"])


def compiled_operators(program: Program) -> frozenset[int]:
    """Indices of the operators that the compiler sees.

    Those of compiled calls; where no call is marked, the whole forward and backward pass, and the
    optimizer's where a device's compiler takes the whole step.
    """
    marked = any(op.region for op in program.ops)
    phases = COMPILED_PHASES
    if program.compiled == WHOLE_STEP:
        phases |= {"optimizer"}
    return frozenset(
        op.index
        for op in program.ops
        if not op.sync and op.phase in phases and (op.region > 0 or not marked)
    )


def in_graph_order(ops: tuple[Op, ...]) -> Iterable[Op]:
    """Operators as compiled code runs them: a backward graph ends before gradients are summed up.

    Eagerly, each gradient is added to the one that is there as soon as it is made. Under
    `DistributedDataParallel` the compiler cuts its graphs where buckets end, so that a bucket's
    gradients appear together, just before it is sent (torch/_dynamo/backends/distributed.py,
    `DDPOptimizer`).
    """
    last = {op.region: op.index for op in ops if op.region and op.phase == "backward"}
    talks = {op.name for op in ops if op.group >= 0}
    if not last or not talks <= _OF_DDP:
        yield from ops
        return
    end = -1
    held: list[Op] = []
    for op in ops:
        if op.region and op.phase == "backward":
            end = last[op.region]
        if op.group >= 0:
            yield from held
            held = []
        elif op.index < end and not op.region and op.phase == "backward" and not op.sync:
            held.append(op)
            continue
        yield op
        if op.index >= end:
            yield from held
            held = []
    yield from held


_OF_DDP = frozenset(["c10d::allreduce_", "c10d::broadcast_", "c10d::allreduce_coalesced_"])
"""Collectives of data parallelism whose parameters stay whole; others feed the graph itself."""


def unwanted_results(program: Program) -> dict[int, tuple[TensorSpec, ...]]:
    """What compiled calls return, could differentiate, and nobody outside of them reads.

    AOTAutograd's backward pass takes a gradient for each such result; autograd hands it zeros.
    """
    returned = {op.region: op.inputs for op in program.ops if op.name == RETURNED}
    if not returned:
        return {}
    read: dict[int, set[int]] = {}
    for op in program.ops:
        for spec in op.inputs:
            read.setdefault(spec.storage, set()).add(op.region)
    return {
        region: tuple(t for t in specs if not read.get(t.storage, set()) - {region})
        for region, specs in returned.items()
    }
