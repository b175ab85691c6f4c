"""Device memory bandwidth sets the step time."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import byte_rate, percent, seconds, size

LEAST_SHARE = 0.40
"""Below this share of the step, bandwidth does not set its pace."""

_READERS = frozenset({"matmul", "attention"})


@finding
def bandwidth_bound(facts: Facts) -> Finding | None:
    """Applies when bandwidth-bound kernels take 40 % of the step and more than anything else.

    Gain: what the same kernels would save if each moved the fewest bytes possible at the full
    bandwidth. Moving less in the first place (fusion, smaller dtypes) can save more, but that is
    another program.
    """
    rows = facts.of_class("bandwidth-bound")
    time_s = facts.time_of(rows)
    if facts.share(time_s) < LEAST_SHARE or not facts.is_largest("bandwidth-bound"):
        return None
    moved = facts.per_step(facts.rows.moved_bytes, rows)
    of_peak, of_peak_zh = "", ""
    if facts.device:
        peak = facts.device.memory_bandwidth_bytes_per_s
        of_peak = f", {percent(moved / time_s / peak)} of the device's {byte_rate(peak)}"
        of_peak_zh = f"，为设备 {byte_rate(peak)} 的 {percent(moved / time_s / peak)}"
    share = percent(facts.share(time_s))
    hint, hint_zh = _hints(facts.kind_times(rows))
    pace, pace_zh = "Memory traffic is the largest part", "显存搬运占比最大"
    if facts.device_bound:
        pace, pace_zh = "Device memory bandwidth sets the pace", "显存带宽决定了速度"
    moving, moving_zh = "", ""
    if moved > 0:
        speed = byte_rate(moved / time_s)
        moving = f" and move {size(moved)}: {speed}{of_peak}"
        moving_zh = f"，搬运 {size(moved)}：{speed}{of_peak_zh}"
    return Finding(
        kind="bandwidth_bound",
        title=f"{pace}: {share} of the step is spent moving data.",
        evidence=f"Bandwidth-bound kernels take {seconds(time_s)}{moving}.",
        max_gain_s=facts.gain_of(rows),
        hint=hint,
        title_zh=f"{pace_zh}：一步中有 {share} 的时间在搬运数据。",
        evidence_zh=f"受带宽限制的内核共用 {seconds(time_s)}{moving_zh}。",
        hint_zh=hint_zh,
    )


def _hints(kinds: dict[str, float]) -> tuple[str, str]:
    total = sum(kinds.values())
    reading = sum(kinds.get(kind, 0.0) for kind in _READERS)
    if reading > total / 2:
        return (
            "Matrix products this thin only read weights or cache: use more rows per read (a "
            "larger batch, speculative decoding) or smaller ones (8- or 4-bit weights, fp8 cache).",
            "这样瘦的矩阵乘只是在读权重或缓存：让每次读取服务更多的行（更大的批量、推测解码），"
            "或减小数据（8 位或 4 位权重、fp8 缓存）。",
        )
    return (
        "Move less: fuse pointwise and reduction kernels (torch.compile), use a fused optimizer "
        "and loss, keep activations in 16 bits.",
        "减少搬运：融合逐元素与归约内核（torch.compile），使用融合的优化器和损失函数，"
        "激活使用 16 位类型。",
    )
