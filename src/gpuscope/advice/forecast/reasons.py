"""Why a change helps or hurts: what of the step it makes shorter or longer, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from gpuscope.advice.types import clauses
from gpuscope.document.quantities import Bytes, Count, Seconds
from gpuscope.document.text import Text, verbatim
from gpuscope.run import Run

__all__ = ["reason"]

_KINDS: Mapping[str, Text] = {
    "matmul": Text("matrix products"),
    "attention": Text("attention"),
    "convolution": Text("convolutions"),
    "normalization": Text("norms and softmax"),
    "reduction": Text("reductions"),
    "pointwise": Text("pointwise kernels"),
    "gather": Text("gathers"),
    "sort": Text("sorts"),
    "copy": Text("copies and casts"),
    "optimizer": Text("the optimizer"),
    "recurrent": Text("recurrent layers"),
    "transfer": Text("transfers"),
    "collective": Text("communication"),
    "memset": Text("clearing memory"),
    "random": Text("random numbers"),
    "fused": Text("fused kernels"),
    "other": Text("other kernels"),
}

_HOST_PACED = 0.95
"""Share of the step from which the host counts as what sets the pace."""

_NAMED = 3
"""Kinds of kernels that a sentence names at most."""

_WORTH = 0.005
"""A kind is named if its time changes by this share of the step or more."""


def reason(before: Run, after: Run, work: float = 1.0) -> Text:
    """What becomes shorter and what longer, with the figures.

    Args:
        before, after: the predicted steps.
        work: work of a step after over that of a step before; figures after are for the same work.
    """
    parts = _kernels(before, after, work)
    host = _host(before, after, work)
    if host is not None:
        parts.insert(0, host)
    repeated = _recomputed(after) - _recomputed(before)
    if repeated > 0:
        parts.append(Text("{repeated} operators run twice", repeated=repeated))
    memory = _memory(before, after)
    if memory is not None and (not parts or abs(_delta(before, after)) > 0.2):
        parts.append(memory)
    if parts:
        return clauses(*parts)
    return _nothing(before)


def _kernels(before: Run, after: Run, work: float) -> list[Text]:
    """Kinds of kernels whose time changes most, largest change first."""
    old = {share.label: share.time_s for share in before.analysis.kinds}
    new = {share.label: share.time_s / work for share in after.analysis.kinds}
    changed = sorted({*old, *new}, key=lambda kind: -abs(new.get(kind, 0.0) - old.get(kind, 0.0)))
    least_s = _WORTH * before.step_time_s
    parts = []
    for kind in changed[:_NAMED]:
        was_s, is_s = old.get(kind, 0.0), new.get(kind, 0.0)
        if abs(is_s - was_s) < least_s:
            break
        name = _KINDS.get(kind) or verbatim(kind)
        parts.append(Text("{kernels} {step}", kernels=name, step=_step(was_s, is_s)))
    return parts


def _host(before: Run, after: Run, work: float) -> Text | None:
    """The host, where it sets the pace of one of the two steps and its own time changes."""
    if before.host_busy_s is None or after.host_busy_s is None:
        return None
    was_s, is_s = before.host_busy_s, after.host_busy_s / work
    paced = (
        max(before.host_busy_s / before.step_time_s, after.host_busy_s / after.step_time_s)
        >= _HOST_PACED
    )
    if not paced or abs(is_s - was_s) < _WORTH * before.step_time_s:
        return None
    launches, step = _launches(before, after), _step(was_s, is_s)
    if not launches:
        return Text("the host, which sets the pace, {step}", step=step)
    return Text(
        "the host, which sets the pace, {step} ({launches} launches)", step=step, launches=launches
    )


def _launches(before: Run, after: Run) -> str:
    old, new = before.analysis.launches, after.analysis.launches
    if old is None or new is None or old.count == new.count:
        return ""
    return f"{Count(old.count)} → {Count(new.count)}"


def _memory(before: Run, after: Run) -> Text | None:
    old, new = before.peak_memory_bytes, after.peak_memory_bytes
    if old is None or new is None or abs(new - old) < 0.01 * old:
        return None
    return Text("peak memory {old} → {new}", old=Bytes(old), new=Bytes(new))


def _delta(before: Run, after: Run) -> float:
    old, new = before.peak_memory_bytes, after.peak_memory_bytes
    return (new - old) / old if old and new else 0.0


def _recomputed(run: Run) -> int:
    if run.program is None:
        return 0
    return sum(op.repeat for op in run.program.ops if op.recomputed and not op.view)


def _nothing(before: Run) -> Text:
    paced = (before.host_busy_s or 0.0) >= _HOST_PACED * before.step_time_s
    if paced:
        return Text("The host sets the pace, and its work stays the same.")
    return Text("Nothing that sets the pace of this step changes.")


def _step(was_s: float, is_s: float) -> str:
    return f"{Seconds(was_s) if was_s else '0'} → {Seconds(is_s) if is_s else '0'}"
