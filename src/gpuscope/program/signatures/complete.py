"""Choose the rule of a recorded call and complete it."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.program.signatures import attention, convolution, matrix, movement  # noqa: F401
from gpuscope.program.signatures.call import UNKNOWN_DTYPE, Call, Made, dense, rule_of
from gpuscope.program.signatures.lists import FUSED, foreach, fused_optimizer
from gpuscope.program.signatures.reductions import broadcast
from gpuscope.program.types import Op, TensorSpec

_COMPARISONS = frozenset(
    {
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "isnan",
        "isinf",
        "isfinite",
        "logical_not",
        "logical_and",
        "logical_or",
        "logical_xor",
        "isposinf",
        "isneginf",
        "isin",
        "isclose",
        "signbit",
    }
)


def known(name: str) -> bool:
    """Whether a rule of its own is there for an operator ("aten::mm")."""
    short = name.rpartition("::")[2]
    return rule_of(short) is not None or short.startswith("_foreach_") or short in FUSED


def complete(
    op: Op, *, values_recorded: bool, elementwise: bool = False, dtype: str = ""
) -> Op | None:
    """Say what a recorded call makes, under the name that cost models know.

    Args:
        op: as a reader leaves it: inputs in order, `args["concrete_inputs"]` the values as text.
        values_recorded: whether the recording holds values at all (PyTorch 1.13 and later, with
            shapes): a call without any is then one that has only tensors.
        elementwise: take a call that has no rule of its own as elementwise.
        dtype: what the tensors of lists are, whose dtype no trace records; "" where that is not
            known and no other tensor of the call tells.

    Returns:
        The operator with inputs, outputs and options; None where the recording does not tell
        (no shapes, values that decide the size not recorded, packed sequences), or where nobody
        wrote a rule.
    """
    short = op.name.rpartition("::")[2]
    texts = op.args.get("concrete_inputs")
    values = tuple(str(t) for t in texts) if isinstance(texts, tuple) else ()
    inputs = _with_dtypes(op.inputs, dtype)
    call = Call(short, inputs, values if values or values_recorded else None)
    made = _made(call, elementwise)
    if made is None or any(t.dtype == UNKNOWN_DTYPE for t in (*made.inputs, *made.outputs)):
        return None
    args = dict(made.args)
    overload = str(args.pop("overload", op.overload))
    return replace(
        op, name=made.name, overload=overload, inputs=made.inputs, outputs=made.outputs, args=args
    )


def _with_dtypes(inputs: tuple[TensorSpec, ...], dtype: str) -> tuple[TensorSpec, ...]:
    """The tensors, unknown dtypes replaced by that of another floating-point one, or `dtype`."""
    if all(t.dtype != UNKNOWN_DTYPE for t in inputs):
        return inputs
    others = [t.dtype for t in inputs if "float" in t.dtype]
    found = others[0] if others else dtype
    if not found:
        return inputs
    return tuple(replace(t, dtype=found) if t.dtype == UNKNOWN_DTYPE else t for t in inputs)


def _made(call: Call, elementwise: bool) -> Made | None:
    if call.name.startswith("_foreach_"):
        return foreach(call)
    if call.name in FUSED:
        return fused_optimizer(call)
    chosen = rule_of(call.name)
    if chosen is not None:
        return chosen(call)
    return _elementwise(call) if elementwise else None


def _elementwise(call: Call) -> Made | None:
    """Broadcast all tensors; in place: into the first."""
    if not call.tensors:
        return None
    if call.name.endswith("_") and not call.name.endswith("__"):
        return Made(f"aten::{call.name}", call.tensors, call.tensors[:1])
    if call.name in ("glu", "glu_backward"):
        return None
    try:
        out = broadcast(call.tensors)
    except ValueError:
        return None
    if call.name in _COMPARISONS:
        out = dense(out.shape, like=out, dtype="bool")
    return Made(f"aten::{call.name}", call.tensors, (out,))
