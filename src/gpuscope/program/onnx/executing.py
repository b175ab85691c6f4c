"""A captured graph as its engine runs it: own kernels, generated ones, epilogues, settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuscope.document.text import Text
from gpuscope.program.fusion import fuse
from gpuscope.program.onnx.engines import Engine
from gpuscope.program.types import FUSED, WHOLE_STEP, Op, Program, TensorSpec

__all__ = ["as_executed"]

_OPAQUE = "gpuscope_onnx::node"
_PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::convolution"})
_SMALL = 8
"""An input this many times smaller than the result is read beside it."""


def as_executed(
    program: Program, engine: Engine, notes: Iterable[Text], replayed: bool = False
) -> Program:
    """The program as the engine runs it.

    Args:
        program: what `network.Network` recorded.
        engine: its profile.
        notes: what the network had to assume.
        replayed: a run is one CUDA graph, which one launch brings to the device.
    """
    unknown: Counter[str] = Counter()
    ops = tuple(_named(op, unknown) for op in program.ops)
    made = replace(program, ops=ops, unsupported=tuple(unknown))
    said = [engine.assumption, *notes]
    if unknown:
        names = ", ".join(sorted(unknown))
        said.append(
            Text(
                "Unknown operators, each taken to read its inputs once and to write its outputs "
                "once: {names}.",
                names=names,
            )
        )
    if engine.pointwise:
        fused = fuse(replace(made, compiled=WHOLE_STEP))
        made = _with_epilogues(replace(made, ops=fused.ops, storages=fused.storages))
    if replayed:
        made = replace(made, ops=tuple(replace(op, graph=1) for op in made.ops))
    return replace(
        made,
        engine=engine.name if engine.node_s is not None else "",
        settings={**made.settings, **dict(engine.settings)},
        assumptions=(*said, *program.assumptions),
    )


def _named(op: Op, unknown: Counter[str]) -> Op:
    """A kernel of the engine's own under its kind's name."""
    if op.name != _OPAQUE:
        return op
    kind, _, columns = str(op.args.get("kind")).partition("|")
    if not columns:
        unknown[kind] += 1
        return replace(op, name=f"onnx::{kind}", args={})
    reduced = int(columns)
    elements = max(each.numel for each in (*op.inputs, *op.outputs))
    args = {
        "operators": (kind,),
        "count": 1,
        "rows": elements // reduced,
        "columns": reduced,
        "reduction": "inner" if reduced > 1 else "",
        "splits": 1,
        "finals": 0,
        "passes": 1,
    }
    return replace(op, name=FUSED, args=args)


def _with_epilogues(program: Program) -> Program:
    """Products and convolutions write what the elementwise kernel after them would have written.

    Where that reads another large tensor (a skip connection), a kernel that reads it stays.
    """
    readers = Counter(spec.storage for op in program.ops if not op.view for spec in op.inputs)
    ops = list(program.ops)
    maker: dict[int, int] = {}
    born: dict[int, int] = {}
    gone: set[int] = set()
    for index, op in enumerate(program.ops):
        if op.view:
            continue
        taken = _continued(op, ops, maker, readers)
        if taken is not None:
            before, out = ops[taken].outputs[0], op.outputs[0]
            ops[taken] = replace(
                ops[taken], outputs=(replace(before, dtype=out.dtype, storage=out.storage),)
            )
            gone.add(before.storage)
            born[out.storage] = taken
            rest = tuple(s for s in op.inputs if s.storage != before.storage and _large(s, out))
            ops[index] = replace(op, inputs=rest, outputs=()) if rest else replace(op, view=True)
        for spec in op.outputs:
            maker[spec.storage] = index if taken is None else taken
    storages = tuple(
        replace(each, born=born.get(each.id, each.born))
        for each in program.storages
        if each.id not in gone
    )
    return replace(program, ops=tuple(ops), storages=storages)


def _continued(
    op: Op, ops: Sequence[Op], maker: dict[int, int], readers: Counter[int]
) -> int | None:
    """Place of the product that an elementwise kernel alone reads, and continues."""
    if op.name != FUSED or op.args.get("reduction") or len(op.outputs) != 1:
        return None
    for spec in op.inputs:
        index = maker.get(spec.storage)
        if index is None or readers[spec.storage] != 1 or ops[index].name not in _PRODUCTS:
            continue
        if ops[index].outputs[0].numel == op.outputs[0].numel:
            return index
    return None


def _large(spec: TensorSpec, out: TensorSpec) -> bool:
    return spec.numel * _SMALL >= out.numel
