"""Kernels so short that starting them costs more than their work."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, seconds

LEAST_SHARE = 0.10
"""Below this share of the step it is not worth a sentence."""


@finding
def launch_bound(facts: Facts) -> Finding | None:
    """Applies when launch-bound kernels and the gaps between launches take a tenth of the step.

    Gain: the gaps, and what the kernels take beyond the roofline, as if all were fused into
    kernels long enough.
    """
    rows = facts.of_class("launch-bound")
    kernels_s, gaps_s = facts.time_of(rows), facts.idle("launch gap")
    if facts.share(kernels_s + gaps_s) < LEAST_SHARE:
        return None
    count = facts.count_of(rows)
    share = percent(facts.share(kernels_s + gaps_s))
    each = seconds(kernels_s / count) if count else "0 µs"
    gain = facts.gain_of(rows)
    calls, calls_zh = _calls(facts)
    return Finding(
        kind="launch_bound",
        title=f"Starting kernels takes {share} of the step: they are too short for the device.",
        evidence=f"{count} kernels that average {each} take {seconds(kernels_s)}; the gaps between "
        f"kernels that were launched in time add {seconds(gaps_s)}.{calls}",
        max_gain_s=(kernels_s if gain is None else gain) + gaps_s,
        hint="Fuse them (torch.compile, fused or foreach optimizer, fused norms and losses), use "
        "CUDA graphs for shorter gaps, or give each more work (a larger batch).",
        title_zh=f"启动内核占一步的 {share}：这些内核对设备来说太短。",
        evidence_zh=f"{count} 个平均 {each} 的内核共用 {seconds(kernels_s)}；"
        f"及时启动的内核之间的间隙另占 {seconds(gaps_s)}。{calls_zh}",
        hint_zh="融合它们（torch.compile、融合或 foreach 优化器、融合的归一化与损失），"
        "用 CUDA 图缩短间隙，或让每个内核做更多工作（更大的批量）。",
    )


def _calls(facts: Facts) -> tuple[str, str]:
    """How the kernels are launched, where that is recorded."""
    found = facts.launches
    if found is None or found.call_median_s is None or not found.count:
        return "", ""
    call, short = seconds(found.call_median_s), found.short_kernels
    text = f" A step makes {found.count} launch calls of {call}"
    text_zh = f"每步有 {found.count} 次启动调用，每次 {call}"
    if short:
        text += f"; {short} kernels are shorter than their own call"
        text_zh += f"；{short} 个内核比自己的启动调用还短"
    return f"{text}.", f"{text_zh}。"
