"""What a case says about decoding: one token at a time over a cache of keys and values."""

from __future__ import annotations

from gpuscope.advice.types import ChangeCase, Fit, ModelSeen
from gpuscope.document.text import Text
from gpuscope.program.growing import grown_lengths
from gpuscope.program.types import Op, Program

__all__ = ["decodes", "decodes_with_growing_cache", "grows", "model_of", "rows_per_product"]

_PRODUCTS = frozenset({"mm", "addmm", "linear"})


def decodes_with_growing_cache(case: ChangeCase) -> Fit:
    """Whether a model of transformers decodes with a cache that is concatenated."""
    if case.program is None:
        return Fit(False, Text("Needs the code."), relevant=False)
    if case.training or not decodes(case.program):
        why = Text("It does not decode token by token.")
        return Fit(False, why, relevant=False)
    if not grows(case.program):
        return Fit(False, Text("The cache does not grow."))
    model = model_of(case)
    if model is None or not model.module.startswith("transformers."):
        return Fit(
            False,
            Text(
                "The cache is the code's own; only those of transformers can be changed from "
                "outside."
            ),
        )
    return Fit(
        True, Text("The cache is copied for every token, and no two steps have equal shapes.")
    )


def model_of(case: ChangeCase) -> ModelSeen | None:
    """The largest model."""
    models = case.seen.models if case.seen is not None else ()
    return max(models, key=lambda m: m.parameters, default=None)


def decodes(program: Program) -> bool:
    """Whether attention has one query a sequence and more keys, in a step without gradients."""
    return any(_one_query(op) for op in program.ops) and not any(
        op.phase == "backward" for op in program.ops
    )


def grows(program: Program) -> bool:
    """Whether keys are concatenated, token by token."""
    return bool(grown_lengths(program))


def rows_per_product(program: Program) -> int | None:
    """Rows of the products with most weights: sequences at work in a decoding step."""
    found = [
        (right.numel, rows)
        for op in program.ops
        if op.name.rpartition("::")[2] in _PRODUCTS and len(op.inputs) > 1
        for left, right in [op.inputs[-2:]]
        if len(right.shape) == 2
        for rows in [left.numel // max(1, left.shape[-1])]
    ]
    return max(found)[1] if found else None


def _one_query(op: Op) -> bool:
    if op.name.rpartition("::")[2] == "attention" and len(op.inputs) > 1:
        query, key = op.inputs[:2]
        return len(query.shape) == 4 and query.shape[-2] == 1 < key.shape[-2]
    if op.name.rpartition("::")[2] == "bmm" and len(op.inputs) == 2:
        return op.inputs[0].shape[1] == 1 < min(op.inputs[1].shape[1:])
    return False
