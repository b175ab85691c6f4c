"""Caches of keys and values that grow: a token's keys are concatenated to those before them."""

from __future__ import annotations

from gpuscope.program.types import Program

__all__ = ["ANEW", "grown_lengths"]

ANEW = "attention_lengths_anew"
"""`Program.settings`: the recorded step's attention had shapes that the step before it did not."""


def grown_lengths(program: Program) -> frozenset[int]:
    """Lengths that caches have after this step: large tensors of four dimensions with a token each
    put behind them (`torch.cat`)."""
    return frozenset(
        op.outputs[0].shape[-2]
        for op in program.ops
        if op.name == "aten::cat"
        and len(op.inputs) == 2
        and len(op.inputs[0].shape) == 4
        and op.inputs[1].shape[-2] < op.inputs[0].shape[-2]
        and op.inputs[1].shape[-1] == op.inputs[0].shape[-1]
    )
