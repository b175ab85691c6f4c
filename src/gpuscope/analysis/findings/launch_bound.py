"""Kernels so short that starting them costs more than their work."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, seconds

LEAST_SHARE = 0.10
"""Below this share of the step it is not worth a sentence."""

SHORT_GAP_S = 1e-6
"""Gaps that average less are what the device needs between any two kernels, graph or not."""


@finding
def launch_bound(facts: Facts) -> Finding | None:
    """Applies when launch-bound kernels and the gaps between launches take a tenth of the step.

    Not of a run on the host's own processor: nothing is launched there.

    Gain: the gaps, and what the kernels take beyond the roofline, as if all were fused into
    kernels long enough.
    """
    if facts.on_host:
        return None
    rows = facts.of_class("launch-bound")
    kernels_s, gaps_s = facts.time_of(rows), facts.idle("launch gap")
    if facts.share(kernels_s + gaps_s) < LEAST_SHARE:
        return None
    count = facts.count_of(rows)
    gaps = sum(spot.count for spot in facts.idle_spots if spot.cause == "launch gap")
    if not count and gaps_s < SHORT_GAP_S * gaps:
        return None
    share = percent(facts.share(kernels_s + gaps_s))
    gain = facts.gain_of(rows)
    title, title_zh = (
        f"Gaps between kernels take {share} of the step",
        f"内核之间的间隙占一步的 {share}",
    )
    took, took_zh = "", ""
    if count:
        title = f"Starting kernels takes {share} of the step: they are too short for the device"
        title_zh = f"启动内核占一步的 {share}：这些内核对设备来说太短"
        each, total = seconds(kernels_s / count), seconds(kernels_s)
        took = f"{count} kernels that average {each} take {total}; "
        took_zh = f"{count} 个平均 {each} 的内核共用 {total}；"
    calls, calls_zh = _calls(facts)
    graphs, graphs_zh = _graphs(facts)
    return Finding(
        kind="launch_bound",
        title=f"{title}.",
        evidence=f"{took}the {gaps} gaps before kernels that were launched in time add "
        f"{seconds(gaps_s)}.{calls}",
        max_gain_s=(kernels_s if gain is None else gain) + gaps_s,
        hint="Fuse them (torch.compile, fused or foreach optimizer, fused norms and losses)"
        f"{graphs}, or give each more work (a larger batch).",
        title_zh=f"{title_zh}。",
        evidence_zh=f"{took_zh}及时启动的内核之前的 {gaps} 个间隙另占 "
        f"{seconds(gaps_s)}。{calls_zh}",
        hint_zh="融合它们（torch.compile、融合或 foreach 优化器、融合的归一化与损失）"
        f"{graphs_zh}，或让每个内核做更多工作（更大的批量）。",
    )


def _graphs(facts: Facts) -> tuple[str, str]:
    """The advice to use graphs, where they are not in use."""
    if facts.launches is not None and facts.launches.graph_launches:
        return "", ""
    return ", use CUDA graphs for shorter gaps", "，用 CUDA 图缩短间隙"


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
