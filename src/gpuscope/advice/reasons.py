"""Why a change helps or hurts: what of the step it makes shorter or longer, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from gpuscope.explain.numbers import count, seconds, size
from gpuscope.explain.types import Words
from gpuscope.run import Run

__all__ = ["reason"]

_KINDS: Mapping[str, tuple[str, str]] = {
    "matmul": ("matrix products", "矩阵乘法"), "attention": ("attention", "注意力"),
    "convolution": ("convolutions", "卷积"),
    "normalization": ("norms and softmax", "归一化与 softmax"),
    "reduction": ("reductions", "归约"), "pointwise": ("pointwise kernels", "逐元素算子"),
    "gather": ("gathers", "聚集与散布"), "sort": ("sorts", "排序"),
    "copy": ("copies and casts", "拷贝与类型转换"), "optimizer": ("the optimizer", "优化器"),
    "recurrent": ("recurrent layers", "循环层"), "transfer": ("transfers", "主机与设备间传输"),
    "collective": ("communication", "通信"), "memset": ("clearing memory", "显存清零"),
    "random": ("random numbers", "随机数"), "fused": ("fused kernels", "融合算子"),
    "other": ("other kernels", "其他算子"),
}  # fmt: skip

_HOST_PACED = 0.95
"""Share of the step from which the host counts as what sets the pace."""

_NAMED = 3
"""Kinds of kernels that a sentence names at most."""

_WORTH = 0.005
"""A kind is named if its time changes by this share of the step or more."""


def reason(before: Run, after: Run, work: float = 1.0) -> Words:
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
        parts.append(
            Words(f"{repeated} operators run twice", f"{repeated} 个算子要多算一遍")
        )  # fmt: skip
    memory = _memory(before, after)
    if memory is not None and (not parts or abs(_delta(before, after)) > 0.2):
        parts.append(memory)
    if parts:
        return Words(
            _capital("; ".join(p.en for p in parts)) + ".", "；".join(p.zh for p in parts) + "。"
        )
    return _nothing(before)


def _kernels(before: Run, after: Run, work: float) -> list[Words]:
    """Kinds of kernels whose time changes most, largest change first."""
    old = {share.label: share.time_s for share in before.analysis.kinds}
    new = {share.label: share.time_s / work for share in after.analysis.kinds}
    changed = sorted(
        {*old, *new}, key=lambda kind: -abs(new.get(kind, 0.0) - old.get(kind, 0.0))
    )  # fmt: skip
    least_s = _WORTH * before.step_time_s
    parts = []
    for kind in changed[:_NAMED]:
        was_s, is_s = old.get(kind, 0.0), new.get(kind, 0.0)
        if abs(is_s - was_s) < least_s:
            break
        en, zh = _KINDS.get(kind, (kind, kind))
        parts.append(Words(f"{en} {_step(was_s, is_s)}", f"{zh} {_step(was_s, is_s)}"))
    return parts


def _host(before: Run, after: Run, work: float) -> Words | None:
    """The host, where it sets the pace of one of the two steps and its own time changes."""
    if before.host_busy_s is None or after.host_busy_s is None:
        return None
    was_s, is_s = before.host_busy_s, after.host_busy_s / work
    paced = max(
        before.host_busy_s / before.step_time_s, after.host_busy_s / after.step_time_s
    ) >= _HOST_PACED  # fmt: skip
    if not paced or abs(is_s - was_s) < _WORTH * before.step_time_s:
        return None
    launches = _launches(before, after)
    more = f" ({launches} launches)" if launches else ""
    more_zh = f"（启动 {launches} 次）" if launches else ""
    return Words(
        f"the host, which sets the pace, {_step(was_s, is_s)}{more}",
        f"决定节奏的主机 {_step(was_s, is_s)}{more_zh}",
    )


def _launches(before: Run, after: Run) -> str:
    old, new = before.analysis.launches, after.analysis.launches
    if old is None or new is None or old.count == new.count:
        return ""
    return f"{count(old.count)} → {count(new.count)}"


def _memory(before: Run, after: Run) -> Words | None:
    old, new = before.peak_memory_bytes, after.peak_memory_bytes
    if old is None or new is None or abs(new - old) < 0.01 * old:
        return None
    return Words(
        f"peak memory {size(old)} → {size(new)}", f"显存峰值 {size(old)} → {size(new)}"
    )  # fmt: skip


def _delta(before: Run, after: Run) -> float:
    old, new = before.peak_memory_bytes, after.peak_memory_bytes
    return (new - old) / old if old and new else 0.0


def _recomputed(run: Run) -> int:
    if run.program is None:
        return 0
    return sum(op.repeat for op in run.program.ops if op.recomputed and not op.view)


def _nothing(before: Run) -> Words:
    paced = (before.host_busy_s or 0.0) >= _HOST_PACED * before.step_time_s
    if paced:
        return Words(
            "The host sets the pace, and its work stays the same.",
            "节奏由主机决定，而主机的工作没有变。",
        )
    return Words(
        "Nothing that sets the pace of this step changes.", "决定这一步节奏的部分没有变化。"
    )


def _step(was_s: float, is_s: float) -> str:
    return f"{seconds(was_s) if was_s else '0'} → {seconds(is_s) if is_s else '0'}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
