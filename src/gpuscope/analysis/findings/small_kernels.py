"""Many short kernels in a recorded timeline, where no cost model tells their limit."""

from __future__ import annotations

from gpuscope.analysis.breakdown import SHORT_KERNEL_S
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, seconds

LEAST_SHARE = 0.10
"""Below this share of the step it is not worth a sentence."""


@finding
def small_kernels(facts: Facts) -> Finding | None:
    """Applies when kernels under 5 us take a tenth of the step and are half of all kernels.

    Not where graphs replay them: there a short kernel costs little more than its work;
    nor on the host's own processor, where nothing is launched.

    Gain: all of their time, as if they were fused into others.
    """
    if facts.replayed or facts.on_host:
        return None
    work = facts.rows.work
    kernels = facts.of_class("not classified")
    short = kernels & (work.end_ns - work.start_ns < SHORT_KERNEL_S * 1e9)
    time_s = facts.time_of(short)
    if facts.share(time_s) < LEAST_SHARE or short.sum() * 2 < kernels.sum():
        return None
    count, total = facts.count_of(short), facts.count_of(kernels)
    share, limit = percent(facts.share(time_s)), seconds(SHORT_KERNEL_S)
    return Finding(
        kind="small_kernels",
        title=f"Kernels shorter than {limit} take {share} of the step.",
        evidence=f"{count} of {total} kernels are that short; together they take "
        f"{seconds(time_s)}, much of it starting and stopping.",
        max_gain_s=time_s,
        hint="Fuse them: torch.compile, fused or foreach optimizer, fused norms and losses.",
        title_zh=f"短于 {limit} 的内核占一步的 {share}。",
        evidence_zh=f"{total} 个内核中有 {count} 个这么短，共用 {seconds(time_s)}，"
        "其中很大一部分用于启动和结束。",
        hint_zh="融合它们：torch.compile、融合或 foreach 优化器、融合的归一化与损失。",
    )
