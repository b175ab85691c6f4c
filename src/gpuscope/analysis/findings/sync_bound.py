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


_HINT = (
    "Keep results on the device: avoid .item(), .cpu(), print of tensors, boolean masks and "
    "nonzero inside the step; log every few steps; copy with non_blocking=True from pinned memory."
)
_HINT_ZH = (
    "让结果留在设备上：步内避免 .item()、.cpu()、打印张量、布尔掩码和 nonzero；"
    "每隔几步再记录日志；拷贝时使用锁页内存和 non_blocking=True。"
)

OFTEN = 3
"""From so many waits on they cut the step to pieces; one at its end (the loss, say) does not."""

LAUNCHES_BETWEEN = 10
"""Launches from one wait to the next below which the host never gets ahead of the device."""

FIRST_SHARE = 0.10
"""Waits that cost this share of the step are where to begin, whatever else the host is slow at."""


@finding
def sync_bound(facts: Facts) -> Finding | None:
    """Applies when the device idles after synchronisations for a twentieth of the step or more.

    Gain: without waits the step still takes as long as the slower of host work and device work,
    and a recorded one saves no more than the host spent in them.
    Where that leaves next to nothing to gain, the waits are not what holds the step up.

    Where waits come layer after layer, the late launches between them are told here too: neither a
    graph nor a compiled step is possible before they are gone. The gain is then all that both
    cost (see `host_bound`), and the part that the waits alone cost stands in the evidence.
    """
    idle_s = facts.idle("host synchronising")
    if facts.share(idle_s) < LEAST_SHARE:
        return None
    gain = without_waits_s(facts)
    if facts.share(gain) < LEAST_GAIN:
        return None
    if waits_come_first(facts):
        return _layer_after_layer(facts, gain)
    largest, largest_zh = named(facts, "host synchronising")
    listed, listed_zh = _listed(facts)
    share, idle = percent(facts.share(idle_s)), seconds(idle_s)
    return Finding(
        kind="sync_bound",
        title=f"The host waits for the device, and then the device for the host: {share} of the "
        "step is idle after synchronisations.",
        evidence=f"The device stood idle for {idle} after the host had waited for it{listed}."
        f"{largest}",
        max_gain_s=gain,
        hint=_HINT,
        title_zh=f"主机等待设备，随后设备又等待主机：一步中有 {share} 是同步之后的空闲。",
        evidence_zh=f"主机等待设备之后，设备空闲了 {idle}{listed_zh}。{largest_zh}",
        hint_zh=_HINT_ZH,
    )


def without_waits_s(facts: Facts) -> float:
    """Return the seconds that a step loses to its waits: it stays the slower of host and device.

    In a recording no more than the host spent in them: Python between two operators is no wait.
    """
    slower = max(facts.busy_s, facts.host_work_s or 0.0)
    lost = max(0.0, min(facts.total_idle_s, facts.step_s - slower))
    if facts.trust is None or facts.host_wait_s is None:
        return lost
    return min(lost, facts.host_wait_s)


def waits_come_first(facts: Facts) -> bool:
    """Return whether waits cut the step to pieces, so that they must go before anything else."""
    waits = sum(count for _, count in facts.syncs)
    launches = len(facts.rows.work) / facts.rows.work.window.steps
    often = waits >= OFTEN and launches <= LAUNCHES_BETWEEN * waits
    return (
        often
        and facts.host_work_s is not None
        and facts.share(facts.idle("host synchronising")) >= LEAST_SHARE
        and facts.share(without_waits_s(facts)) >= FIRST_SHARE
    )


def _layer_after_layer(facts: Facts, waits_s: float) -> Finding:
    """The finding where the host waits again and again within a step."""
    count = sum(number for _, number in facts.syncs)
    elsewhere = ("waiting for data", "waiting for another rank", "unknown")
    both = max(waits_s, facts.total_idle_s - sum(map(facts.idle, elsewhere)))
    largest, largest_zh = named(facts, "host synchronising")
    listed, listed_zh = _listed(facts)
    alone, share, rest = seconds(waits_s), percent(facts.share(waits_s)), seconds(both - waits_s)
    every = max(1, round(len(facts.rows.work) / facts.rows.work.window.steps / count))
    return Finding(
        kind="sync_bound",
        title=f"The host waits for the device {count} times a step, so it never gets ahead of it.",
        evidence=f"It waits after every {every} launches{listed}, and each time the device then "
        f"waits for the next launch. Without these waits the host would run ahead: up to {alone} "
        f"({share}) less. Up to {rest} more is the launching itself, which graphs or compilation "
        f"can take away only once nothing in the step waits.{largest}",
        max_gain_s=both,
        hint=_HINT,
        title_zh=f"主机在一步中等待设备 {count} 次，因此始终无法领先于设备。",
        evidence_zh=f"每 {every} 次启动就等待一次{listed_zh}，随后设备又要等待下一次启动。"
        f"没有这些等待，主机就能领先：最多减少 {alone}（{share}）。另有最多 {rest} 是启动本身，"
        f"只有步内不再等待时，CUDA 图或编译才能消除它。{largest_zh}",
        hint_zh=_HINT_ZH,
    )


def _listed(facts: Facts) -> tuple[str, str]:
    """The synchronisations with how many a step has, in brackets."""
    names = ", ".join(f"{name} ×{count}" for name, count in facts.syncs[:3])
    return (f" ({names})", f"（{names}）") if names else ("", "")
