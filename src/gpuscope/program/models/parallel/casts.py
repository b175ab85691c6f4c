"""Weights cast to float8 once a step, not in every microbatch; products of four bits.

Transformer Engine keeps a weight's float8 copies from the first microbatch of a step on
(`is_first_microbatch` in transformer_engine/pytorch/module/linear.py and grouped_linear.py, set by
megatron/core/extensions/transformer_engine.py), or keeps nothing else (`fp8_param`). Either way the
microbatches that follow, and what the backward pass does again, find it.
"""

from __future__ import annotations

from dataclasses import replace

from gpuscope.program.types import NVFP4, Op, Program, Storage, TensorSpec

__all__ = ["cast_once", "in_four_bits"]

_CAST = "gpuscope::cast_transpose"


def cast_once(program: Program) -> Program:
    """The program with the first cast of every weight alone, whose copies live on.

    A weight is what one module casts again: activations of another microbatch lie elsewhere.

    Args:
        program: a step of one or more microbatches.
    """
    kept: dict[object, Op] = {}
    twin: dict[int, int] = {}
    ops: list[Op] = []
    for op in program.ops:
        if op.name == _CAST:
            cast = op.inputs[0]
            first = kept.setdefault((op.module, cast.storage, cast.shape, cast.dtype), op)
            if first is not op:
                twin.update(
                    (late.storage, early.storage)
                    for late, early in zip(op.outputs, first.outputs, strict=True)
                )
                op = replace(op, view=True)
        ops.append(op)
    if not twin:
        return program
    return replace(
        program, ops=tuple(_renamed(op, twin) for op in ops), storages=_lives(program, twin)
    )


def in_four_bits(ops: list[Op]) -> None:
    """Multiply in NVFP4 what is cast to float8: the same operators with half of the bytes.

    What else is in float8, as what tensor parallel ranks gather before a product, stays.
    """
    cast: set[int] = set()
    for index, op in enumerate(ops):
        if op.name == _CAST:
            cast.update(spec.storage for spec in op.outputs)
        if cast.isdisjoint(spec.storage for spec in (*op.inputs, *op.outputs)):
            continue

        def four(spec: TensorSpec) -> TensorSpec:
            return replace(spec, dtype=NVFP4) if spec.storage in cast else spec

        outputs = tuple(map(four, op.outputs))
        ops[index] = replace(op, inputs=tuple(map(four, op.inputs)), outputs=outputs)


def _lives(program: Program, twin: dict[int, int]) -> tuple[Storage, ...]:
    """The storages, where a first copy lives as long as the longest-lived that it stands for."""
    by_number = {storage.id: storage for storage in program.storages}
    died: dict[int, int | None] = {}
    for late, early in twin.items():
        known = died.get(early, by_number[early].died)
        other = by_number[late].died
        died[early] = None if known is None or other is None else max(known, other)
    return tuple(
        replace(storage, died=died[storage.id]) if storage.id in died else storage
        for storage in program.storages
        if storage.id not in twin
    )


def _renamed(op: Op, twin: dict[int, int]) -> Op:
    if not any(spec.storage in twin for spec in (*op.inputs, *op.outputs)):
        return op

    def moved(spec: TensorSpec) -> TensorSpec:
        return replace(spec, storage=twin.get(spec.storage, spec.storage))

    return replace(op, inputs=tuple(map(moved, op.inputs)), outputs=tuple(map(moved, op.outputs)))
