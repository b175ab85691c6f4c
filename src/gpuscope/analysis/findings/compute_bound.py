"""Arithmetic sets the step time."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import flop_rate, percent, seconds

POOR = 0.5
"""Large matrix products reach 60-80 % of the dense peak; below half, shapes or kernels are at
fault."""

LEAST_SHARE = 0.40
"""Below this share of the step, arithmetic does not set its pace."""


@finding
def compute_bound(facts: Facts) -> Finding | None:
    """Applies when compute-bound kernels take 40 % of the step and more than anything else.

    Gain: what the same kernels would save at the dense peak of their dtype, which no real kernel
    reaches.
    """
    rows = facts.of_class("compute-bound")
    time_s = facts.time_of(rows)
    if facts.share(time_s) < LEAST_SHARE or not facts.is_largest("compute-bound"):
        return None
    rate = facts.per_step(facts.rows.flops, rows) / time_s
    best = facts.best_of(rows)
    of_peak = f", {percent(best / time_s)} of what the dense peak allows" if best else ""
    of_peak_zh = f"，为稠密峰值允许的 {percent(best / time_s)}" if best else ""
    speed, speed_zh = "", ""
    if rate > 0:
        speed, speed_zh = f" at {flop_rate(rate)}{of_peak}", f"，速率 {flop_rate(rate)}{of_peak_zh}"
    share = percent(facts.share(time_s))
    hint, hint_zh = _hints(best / time_s if best else None)
    pace, pace_zh = "Arithmetic is the largest part", "计算占比最大"
    if facts.device_bound:
        pace, pace_zh = "Arithmetic sets the pace", "计算决定了速度"
    return Finding(
        kind="compute_bound",
        title=f"{pace}: {share} of the step is spent computing.",
        evidence=f"Compute-bound kernels take {seconds(time_s)}{speed}.",
        max_gain_s=facts.gain_of(rows),
        hint=hint,
        title_zh=f"{pace_zh}：一步中有 {share} 的时间在做运算。",
        evidence_zh=f"受计算限制的内核共用 {seconds(time_s)}{speed_zh}。",
        hint_zh=hint_zh,
    )


def _hints(of_peak: float | None) -> tuple[str, str]:
    if of_peak is not None and of_peak < POOR:
        return (
            "The kernels are far from their peak: larger or better aligned shapes, a better "
            "layout (channels_last), or other kernels (fused attention, torch.compile) come first.",
            "这些内核离峰值还很远：先考虑更大或更对齐的形状、更好的布局（channels_last），"
            "或其他内核（融合注意力、torch.compile）。",
        )
    return (
        "Compute less or in a smaller dtype (bf16, fp8 where the model bears it), avoid "
        "recomputation, or use more devices.",
        "减少计算或使用更小的数据类型（bf16，模型允许时用 fp8），避免重计算，或使用更多设备。",
    )
