"""Synchronisations cost the host its lead over the device."""

from __future__ import annotations

from gpuscope.analysis.findings.culprits import named
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, seconds

LEAST_SHARE = 0.05
"""Idle after synchronisations below this share of the step is not worth a sentence."""

LEAST_GAIN = 0.01
"""Nor is a gain below this share of the step."""


@finding
def sync_bound(facts: Facts) -> Finding | None:
    """Applies when the device idles after synchronisations for a twentieth of the step or more.

    Gain: without waits the step still takes as long as the slower of host work and device work.
    Where that leaves next to nothing to gain, the waits are not what holds the step up.
    """
    idle_s = facts.idle("host synchronising")
    if facts.share(idle_s) < LEAST_SHARE:
        return None
    slower = max(facts.busy_s, facts.host_work_s or 0.0)
    gain = max(0.0, min(facts.total_idle_s, facts.step_s - slower))
    if facts.share(gain) < LEAST_GAIN:
        return None
    largest, largest_zh = named(facts, "host synchronising")
    names = ", ".join(f"{name} ×{count}" for name, count in facts.syncs[:3])
    listed, listed_zh = (f" ({names})", f"（{names}）") if names else ("", "")
    share, idle = percent(facts.share(idle_s)), seconds(idle_s)
    return Finding(
        kind="sync_bound",
        title=f"The host waits for the device, and then the device for the host: {share} of the "
        "step is idle after synchronisations.",
        evidence=f"The device stood idle for {idle} after the host had waited for it{listed}."
        f"{largest}",
        max_gain_s=gain,
        hint="Keep results on the device: avoid .item(), .cpu(), print of tensors, boolean masks "
        "and nonzero inside the step; log every few steps; copy with non_blocking=True from "
        "pinned memory.",
        title_zh=f"主机等待设备，随后设备又等待主机：一步中有 {share} 是同步之后的空闲。",
        evidence_zh=f"主机等待设备之后，设备空闲了 {idle}{listed_zh}。{largest_zh}",
        hint_zh="让结果留在设备上：步内避免 .item()、.cpu()、打印张量、布尔掩码和 nonzero；"
        "每隔几步再记录日志；拷贝时使用锁页内存和 non_blocking=True。",
    )
