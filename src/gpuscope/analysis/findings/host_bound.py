"""The host launches work too slowly to keep the device busy."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, seconds

LEAST_SHARE = 0.10
"""Idle behind the host's dispatch below this share of the step is normal start-up and rounding."""


@finding
def host_bound(facts: Facts) -> Finding | None:
    """Applies when late launches leave the device idle for a tenth of the step or more.

    Gain: a host that is never late leaves the step at its device time, so no more than all idle
    time but the waits for data, which another finding covers.
    """
    late = facts.idle("host dispatching")
    others = [time for cause, time in facts.idle_s.items() if cause != "host dispatching"]
    if facts.share(late) < LEAST_SHARE or late < max(others, default=0.0):
        return None
    gain = facts.step_s - facts.busy_s - facts.idle("waiting for data")
    duration = facts.rows.work.end_ns - facts.rows.work.start_ns
    count = facts.count_of(np.ones(len(duration), bool))
    median = seconds(float(np.median(duration)) * 1e-9) if len(duration) else "-"
    busy, step, idle = seconds(facts.busy_s), seconds(facts.step_s), seconds(late)
    share = percent(facts.share(late))
    pace, pace_zh = "The host delays the device", "主机拖慢了设备"
    if gain >= facts.busy_s:
        pace, pace_zh = "The host sets the pace", "主机决定了速度"
    return Finding(
        kind="host_bound",
        title=f"{pace}: the device waits for launches {share} of the step.",
        evidence=f"The device works {busy} of the {step} step; for {idle} its next kernel had not "
        f"been launched yet. A step has {count} device launches, half of them under {median}.",
        max_gain_s=max(0.0, gain),
        hint="Launch less: torch.compile(mode='reduce-overhead') or CUDA graphs, a fused "
        "optimizer, or more work per launch (a larger batch).",
        title_zh=f"{pace_zh}：设备在一步中有 {share} 的时间在等待内核启动。",
        evidence_zh=f"一步 {step} 中设备只工作 {busy}；有 {idle} 的时间下一个内核尚未启动。"
        f"每步有 {count} 次设备启动，其中一半短于 {median}。",
        hint_zh="减少启动次数：使用 torch.compile(mode='reduce-overhead') 或 CUDA 图、"
        "融合优化器，或加大批量，让每次启动做更多工作。",
    )
