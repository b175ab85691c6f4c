"""Figures of a case that changes give as their reason: what waits, what a step is made of."""

from __future__ import annotations

from gpuscope.advice.types import ChangeCase
from gpuscope.analysis.types import Analysis
from gpuscope.document.quantities import Percent
from gpuscope.program.types import Op

__all__ = [
    "compiled_operators",
    "growing_cache",
    "kind_s",
    "percent",
    "product_dtypes",
    "scores_unfused",
    "waits_for_host_s",
    "waits_for_hosts_s",
]

PRODUCTS = frozenset(
    "mm addmm _addmm_activation bmm baddbmm convolution attention _scaled_mm _grouped_mm".split()
)
"""Operators that tensor cores can do."""

_HOST_CAUSES = ("host dispatching", "launch gap")


def waits_for_hosts_s(case: ChangeCase) -> float:
    """Seconds of a step that the device waits for a host: its own, or another rank's.

    Another rank's host is waited for in collectives. Which ones those are, all ranks' recordings
    tell; of one rank alone it is the waiting during which its own host was at work, since all ranks
    run one program.
    """
    analysis = case.analysis
    return waits_for_host_s(case) + (_in_collectives_s(analysis) if analysis.step_s else 0.0)


def _in_collectives_s(analysis: Analysis) -> float:
    story, talk = analysis.ranks, analysis.communication
    if story is not None and story.waiting_s > 0:
        late_s = story.waiting_by_reason.get("host dispatching", 0.0)
        own = max(share.exposed_waiting_s for share in story.ranks) / story.steps
        return own * late_s / story.waiting_s
    return talk.waiting.host_s.get("working", 0.0) if talk and talk.waiting else 0.0


def waits_for_host_s(case: ChangeCase) -> float:
    """Seconds of a step that the device idles because the next launch has not come."""
    analysis = case.analysis
    for time in analysis.time.values():
        if time.span_s <= 0:
            return 0.0
        idle_s = sum(time.idle_by_cause.get(cause, 0.0) for cause in _HOST_CAUSES)
        return idle_s / time.span_s * analysis.step_s
    return 0.0


def kind_s(case: ChangeCase, *kinds: str) -> float:
    """Device seconds of a step in kernels of these families."""
    return sum(share.time_s for share in case.analysis.kinds if share.label in kinds)


def product_dtypes(case: ChangeCase) -> frozenset[str]:
    """Dtypes in which the step multiplies; empty for a trace."""
    if case.program is None:
        return frozenset()
    return frozenset(
        op.inputs[-1].dtype for op in case.program.ops if base_name(op) in PRODUCTS and op.inputs
    )


def compiled_operators(case: ChangeCase) -> int:
    """Operators of a step that a compiler would be given: forward and backward, views not."""
    if case.program is None:
        return 0
    return sum(
        op.repeat
        for op in case.program.ops
        if op.phase in ("forward", "backward") and not op.view and op.group < 0
    )


def growing_cache(case: ChangeCase) -> bool:
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
    )


def scores_unfused(case: ChangeCase) -> bool:
    """Whether attention writes its scores to memory: a softmax over pairs of tokens."""
    if case.program is None:
        return False
    return any(
        base_name(op) == "_softmax"
        and op.phase == "forward"
        and len(op.outputs[0].shape) == 4
        and min(op.outputs[0].shape[-2:]) >= 64
        for op in case.program.ops
    )


def base_name(op: Op) -> str:
    """ "mm" of "aten::mm"."""
    return op.name.rpartition("::")[2]


def percent(part: float, whole: float) -> Percent:
    """A part as a share of the whole; none of nothing."""
    return Percent(part / whole if whole else 0.0)
