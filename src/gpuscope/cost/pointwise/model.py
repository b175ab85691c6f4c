"""Elementwise operators: arithmetic, activations and their gradients, comparisons, masks.

One kernel each, whatever the arithmetic; `gpuscope.cost.pointwise.elementwise` says which. In-place
forms read and write the same memory. Operands on the host (0-dim tensors) travel in the launch.
"""

from __future__ import annotations

from dataclasses import replace

from gpuscope.cost.bandwidth import is_hot
from gpuscope.cost.copy.model import copy_kernel, fill_kernel
from gpuscope.cost.copy.transfer import link_copy
from gpuscope.cost.pointwise.elementwise import converts, elementwise
from gpuscope.cost.pointwise.names import (
    BESSEL,
    CHEAP,
    DIGAMMA,
    FLOORED,
    GAMMA,
    HEAVY,
    SERIES,
    SPECIAL,
    TRANSCENDENTAL,
    operators,
)
from gpuscope.cost.registry import KernelModel, Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text

_OWN_MODEL = frozenset(
    f"aten::{name}"
    for name in "isin isinf pow pow_ where glu div div_ polygamma polygamma_".split()
)


def _register(names: tuple[str, ...], arithmetic: str) -> None:
    def model(work: Work) -> tuple[Kernel, ...]:
        return elementwise(work, name=_short(work), arithmetic=arithmetic, casting=_casts(work))

    model.__doc__ = f"Elementwise operators of {arithmetic} arithmetic."
    serve: KernelModel = model
    kernel_model(*(n for n in operators(names) if n not in _OWN_MODEL))(serve)


def _short(work: Work) -> str:
    return work.op.name.rpartition("::")[2].rstrip("_")


def _casts(work: Work) -> bool:
    """Types convert where inputs differ, or an in-place result differs from the arithmetic."""
    inputs = work.inputs
    if converts(inputs):
        return True
    outs = work.outputs
    if not outs or not inputs:
        return False
    # Comparisons and masks write bool from any type without a conversion.
    return outs[0].dtype not in ("bool", inputs[0].dtype) and inputs[0].dtype != "bool"


_register(CHEAP, "cheap")
_register(TRANSCENDENTAL, "transcendental")
_register(HEAVY, "heavy")
_register(SPECIAL, "special")
_register(BESSEL, "bessel")
_register(GAMMA, "gamma")
_register(DIGAMMA, "digamma")
_register(SERIES, "series")
_register(FLOORED, "floored")


@kernel_model("aten::div", "aten::div_")
def div(work: Work) -> tuple[Kernel, ...]:
    """Division; by a number it is a multiplication with the reciprocal (BinaryDivTrueKernel.cu)."""
    by_tensor = len(work.inputs) > 1
    return elementwise(
        work,
        name="div",
        arithmetic="transcendental" if by_tensor else "cheap",
        casting=_casts(work),
    )


@kernel_model("aten::polygamma", "aten::polygamma_")
def polygamma(work: Work) -> tuple[Kernel, ...]:
    """Derivatives of digamma: the first by a formula of its own (`trigamma`), others by zeta's
    series."""
    order = work.op.args.get("n", 1)
    arithmetic = {0: "digamma", 1: "gamma"}.get(order if isinstance(order, int) else 2, "series")
    return elementwise(work, name="polygamma", arithmetic=arithmetic, casting=_casts(work))


@kernel_model("aten::pow", "aten::pow_")
def power(work: Work) -> tuple[Kernel, ...]:
    """Powers: 2, 3, -1, 0.5 and the like are special-cased (PowKernel.cu), others need exp2; 1 is
    a copy, and a number to the power of a tensor is put into a tensor first (Pow.cpp)."""
    exponent = work.op.args.get("exponent")
    if exponent == 1 and len(work.inputs) == 1 and work.op.name == "aten::pow":
        return (copy_kernel(work, work.inputs[0], work.outputs[0], is_hot(work, 0)),)
    simple = isinstance(exponent, (int, float)) and exponent in (2, 3, -1, -2, 0.5, -0.5, 1, 0)
    made = elementwise(
        work, name="pow", arithmetic="cheap" if simple else "power", casting=_casts(work)
    )
    if work.op.overload != "Scalar" or not work.outputs:
        return made
    return fill_kernel(work, replace(work.outputs[0], shape=(), stride=())), *made


@kernel_model("aten::isinf")
def isinf(work: Work) -> tuple[Kernel, ...]:
    """The absolute value, compared with infinity (TensorCompare.cpp)."""
    if not work.inputs or not work.outputs:
        return ()
    x = work.op.inputs[0]
    size = replace(work, op=replace(work.op, outputs=(replace(x, storage=-1),)))
    compared = replace(work, op=replace(work.op, inputs=(replace(x, storage=-1),)), hot=(True,))
    return *elementwise(size, name="abs"), *elementwise(compared, name="eq")


@kernel_model("aten::where")
def where(work: Work) -> tuple[Kernel, ...]:
    """Choice by a mask; without values it lists the positions that are set (as `nonzero`)."""
    if len(work.op.inputs) == 1 and "other" not in work.op.args and "self" not in work.op.args:
        from gpuscope.cost.indexing.gather import nonzero

        return nonzero(work)
    # Values of the host go over before: others take one as a number in the launch, this does not.
    sent = [t for t in work.op.inputs if t.device == "host" and not t.shape]
    copies = tuple(link_copy(work, float(t.itemsize), "h2d", t.pinned) for t in sent)
    if sent:
        there = tuple(replace(t, device="device") if t in sent else t for t in work.op.inputs)
        work = replace(work, op=replace(work.op, inputs=there))
    return *copies, *elementwise(work, name="where", casting=converts(work.inputs))


@kernel_model("aten::masked_fill", "aten::masked_fill_")
def masked_fill(work: Work) -> tuple[Kernel, ...]:
    """In place where a mask is set; out of place the whole tensor is cloned first."""
    if work.op.name.endswith("_") or not work.outputs or not work.outputs[0].numel:
        return elementwise(work, name="masked_fill", casting=False)
    clone = copy_kernel(work, work.op.inputs[0], work.outputs[0], is_hot(work, 0))
    of_clone = (work.outputs[0], *work.op.inputs[1:])
    filled = replace(work, op=replace(work.op, inputs=of_clone))
    return clone, *elementwise(filled, name="masked_fill", casting=False)


@kernel_model("aten::glu")
def glu(work: Work) -> tuple[Kernel, ...]:
    """Gated linear unit: both halves of the input make one output."""
    made = elementwise(work, name="glu", arithmetic="transcendental", casting=False)
    return tuple(replace(k, note=Text("two halves of one input")) for k in made)
