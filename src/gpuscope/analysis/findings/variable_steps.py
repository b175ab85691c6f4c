"""Some steps take much longer than the others."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.recorded_types import RankSteps, SlowStep
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, seconds

LEAST_SHARE = 0.05
"""Slow steps that raise the mean by less than this are not worth a sentence."""

_CLASSES_ZH = {
    "computation": "计算", "communication": "通信", "copies": "拷贝",
    "idle: host dispatching": "空闲：主机派发", "idle: host synchronising": "空闲：主机同步",
    "idle: launch gap": "空闲：启动间隙", "idle: waiting for data": "空闲：等待数据",
    "idle: waiting for another stream": "空闲：等待其他流",
    "idle: waiting for another rank": "空闲：等待其他进程", "idle: unknown": "空闲：未知",
}  # fmt: skip


@finding
def variable_steps(facts: Facts) -> Finding | None:
    """Applies when slow steps raise the mean step by a twentieth or more.

    Gain: mean less median, as if every slow step were an ordinary one.
    """
    if facts.step_spread is None:
        return None
    own = [steps for steps in facts.step_spread.ranks if steps.rank == facts.rank]
    if not own or not own[0].slow:
        return None
    steps, worst = own[0], own[0].slow[0]
    gain = steps.mean_s - steps.median_s
    if gain < LEAST_SHARE * steps.mean_s:
        return None
    count, of = len(steps.slow), len(steps.times_s)
    return Finding(
        kind="variable_steps",
        title=f"{count} of {of} steps are slow: the mean step is {percent(gain / steps.mean_s)} "
        "longer than need be.",
        evidence=f"The median step takes {seconds(steps.median_s)}, the mean "
        f"{seconds(steps.mean_s)}, the slowest {seconds(steps.slowest_s)}. "
        f"{_worst(worst)}{_jitter(steps)}",
        max_gain_s=gain,
        hint="Look at what grew in the slow steps. Usual causes: the data loader, allocation on "
        "the device (cudaMalloc), garbage collection (gc.freeze, gc.disable), changing shapes, "
        "saving and logging inside the step.",
        title_zh=f"{of} 步中有 {count} 步较慢：平均步时比应有的长 {percent(gain / steps.mean_s)}。",
        evidence_zh=f"中位步时 {seconds(steps.median_s)}，平均 {seconds(steps.mean_s)}，最慢 "
        f"{seconds(steps.slowest_s)}。{_worst_zh(worst)}",
        hint_zh="看看慢的步里什么变长了。常见原因：数据加载、设备内存分配（cudaMalloc）、垃圾回收"
        "（gc.freeze、gc.disable）、形状变化、在步内保存和记录日志。",
    )


def _worst(slow: SlowStep) -> str:
    parts = ", ".join(
        f"{label} {seconds(time_s)}" for label, time_s in slow.parts[:3] if time_s > 0
    )
    names = f"; of single names {slow.causes[0][0]} most" if slow.causes else ""
    return f"Step {slow.number} takes {seconds(slow.extra_s)} more: {parts}{names}."


def _worst_zh(slow: SlowStep) -> str:
    parts = "，".join(
        f"{_CLASSES_ZH.get(label, label)} {seconds(time_s)}"
        for label, time_s in slow.parts[:3]
        if time_s > 0
    )
    names = f"；其中增长最多的是 {slow.causes[0][0]}" if slow.causes else ""
    return f"第 {slow.number} 步多用 {seconds(slow.extra_s)}：{parts}{names}。"


def _jitter(steps: RankSteps) -> str:
    varying = [(n, m, most) for n, (m, most) in steps.jitter.items() if most > 2 * m]
    if not varying:
        return ""
    name, median, most = max(varying, key=lambda item: item[2])
    return f" Host time in {name} varies: median {seconds(median)}, at most {seconds(most)}."
