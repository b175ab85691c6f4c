"""Copies between host and device that no kernel hides."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import byte_rate, percent, seconds, size

LEAST_SHARE = 0.05
"""Copies below this share of the step are not worth a sentence."""


@finding
def transfer_bound(facts: Facts) -> Finding | None:
    """Applies when exposed copies take a twentieth of the step or more.

    Gain: all of their exposed time, as if they were hidden under kernels.
    """
    copies = facts.of_class("transfers")
    time_s = facts.time_of(copies)
    if facts.share(time_s) < LEAST_SHARE:
        return None
    moved = facts.per_step(facts.rows.moved_bytes, copies)
    share, count = percent(facts.share(time_s)), facts.count_of(copies)
    rate, rate_zh = "", ""
    if moved > 0:
        # The rate is over the copies' whole length, hidden parts included.
        ran = np.asarray(
            (facts.rows.work.end_ns - facts.rows.work.start_ns) * 1e-9, np.float64
        )
        speed = byte_rate(moved / facts.per_step(ran, copies))
        rate, rate_zh = f": {size(moved)} at {speed}", f"：{size(moved)}，{speed}"
        link = facts.device.host_link_bandwidth_bytes_per_s if facts.device else None
        if link:
            rate += f" of the link's {byte_rate(link)}"
            rate_zh += f"（链路为 {byte_rate(link)}）"
    return Finding(
        kind="transfer_bound",
        title=f"Copies between host and device take {share} of the step, with nothing beside them.",
        evidence=f"{count} copies take {seconds(time_s)} while no kernel runs{rate}.",
        max_gain_s=time_s,
        hint="Copy from pinned memory with non_blocking=True on a stream of its own while the "
        "step before computes; keep on the device what does not change; send smaller dtypes.",
        title_zh=f"主机与设备之间的拷贝占一步的 {share}，期间没有任何计算。",
        evidence_zh=f"{count} 次拷贝共用 {seconds(time_s)}，期间没有内核运行{rate_zh}。",
        hint_zh="使用锁页内存和 non_blocking=True，在单独的流上与上一步的计算重叠；"
        "不变的数据留在设备上；传输更小的数据类型。",
    )
