"""Figures of a case that changes give as their reason: what waits, what a step is made of."""

from __future__ import annotations

from gpuscope.advice.types import Case
from gpuscope.program.types import Op

__all__ = [
    "compiled_operators", "growing_cache", "kind_s", "milliseconds", "percent", "product_dtypes",
    "scores_unfused", "waits_for_host_s",
]  # fmt: skip

PRODUCTS = frozenset(
    {"mm", "addmm", "bmm", "baddbmm", "convolution", "attention", "_scaled_mm", "_grouped_mm"}
)
"""Operators that tensor cores can do."""

_HOST_CAUSES = ("host dispatching", "launch gap")


def waits_for_host_s(case: Case) -> float:
    """Seconds of a step that the device idles because the next launch has not come."""
    analysis = case.analysis
    for time in analysis.time.values():
        if time.span_s <= 0:
            return 0.0
        idle_s = sum(time.idle_by_cause.get(cause, 0.0) for cause in _HOST_CAUSES)
        return idle_s / time.span_s * analysis.step_s
    return 0.0


def kind_s(case: Case, *kinds: str) -> float:
    """Device seconds of a step in kernels of these families."""
    return sum(share.time_s for share in case.analysis.kinds if share.label in kinds)


def product_dtypes(case: Case) -> frozenset[str]:
    """Dtypes in which the step multiplies; empty for a trace."""
    if case.program is None:
        return frozenset()
    return frozenset(
        op.inputs[-1].dtype for op in case.program.ops
        if base_name(op) in PRODUCTS and op.inputs
    )  # fmt: skip


def compiled_operators(case: Case) -> int:
    """Operators of a step that a compiler would be given: forward and backward, views not."""
    if case.program is None:
        return 0
    return sum(
        op.repeat for op in case.program.ops
        if op.phase in ("forward", "backward") and not op.view and op.group < 0
    )  # fmt: skip


def growing_cache(case: Case) -> bool:
    """Whether a key-value cache is joined anew at every step, so that shapes never stay.

    Told by `cat`s without gradients whose results outlive the step, two for each layer.
    """
    program = case.program
    if program is None or case.training:
        return False
    lasting = {s.id for s in program.storages if s.born >= 0 and s.died is None}
    return any(
        base_name(op) == "cat" and op.outputs and op.outputs[0].storage in lasting
        for op in program.ops
    )  # fmt: skip


def scores_unfused(case: Case) -> bool:
    """Whether attention writes its scores to memory: a softmax over pairs of tokens."""
    if case.program is None:
        return False
    return any(
        base_name(op) == "_softmax" and op.phase == "forward" and len(op.outputs[0].shape) == 4
        and min(op.outputs[0].shape[-2:]) >= 64
        for op in case.program.ops
    )  # fmt: skip


def base_name(op: Op) -> str:
    """ "mm" of "aten::mm"."""
    return op.name.rpartition("::")[2]


def milliseconds(seconds: float) -> str:
    """E.g. "1.24 ms", three figures."""
    return f"{seconds * 1e3:.3g} ms"


def percent(part: float, whole: float) -> str:
    """E.g. "12 %"; "0 %" of nothing."""
    return f"{100 * part / whole if whole else 0:.0f} %"
