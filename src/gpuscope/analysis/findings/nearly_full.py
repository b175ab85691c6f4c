"""The step fits, but so closely that it may not."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, size

MARGIN = 0.05
"""Free memory over the predicted peak below which a prediction is no promise: as far as a recorded
peak may lie above its prediction (the target of docs/accuracy.md for the worst workload)."""


@finding
def nearly_full(facts: Facts) -> Finding | None:
    """Applies to predicted steps that leave less than `MARGIN` of their peak free.

    No gain is stated: the step runs, or it does not.
    """
    memory = facts.memory
    if memory is None or facts.trust is not None or memory.capacity_bytes is None:
        return None
    if memory.missing_bytes > 0 or memory.peak_bytes <= 0:
        return None
    low, high = memory.peak_bytes * (1 - MARGIN), memory.peak_bytes * (1 + MARGIN)
    if high <= memory.capacity_bytes:
        return None
    free = memory.capacity_bytes - memory.peak_bytes
    peak, have = size(memory.peak_bytes), size(memory.capacity_bytes)
    between = f"{size(low)} – {size(high)}"
    cached = memory.reserved_bytes
    kept = kept_zh = ""
    if cached is not None and cached > memory.peak_bytes:
        kept = f" With what the allocator keeps it is {size(cached)}."
        kept_zh = f"加上分配器保留的部分为 {size(cached)}。"
    return Finding(
        kind="nearly_full",
        title=f"The step may not fit: {peak} of {have} at its peak, {size(free)} left.",
        evidence=f"The true peak may lie {percent(MARGIN)} to either side, {between}; other "
        f"programs on the device, or pieces too small for a request, need room too.{kept}",
        max_gain_s=None,
        hint="Leave a twentieth free: a smaller batch, recomputation, or "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragments.",
        title_zh=f"可能放不下：峰值时占用 {peak}，设备共 {have}，只剩 {size(free)}。",
        evidence_zh=f"真实峰值可能上下相差 {percent(MARGIN)}，即 {between}；"
        f"设备上的其他程序以及过小的空闲碎片也要占用空间。{kept_zh}",
        hint_zh="留出二十分之一的显存：减小批量、使用重计算，或设置 "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True 以减少碎片。",
    )
