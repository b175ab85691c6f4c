"""The host launches work too slowly to keep the device busy."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.findings.culprits import garbage_s, memory_calls_s, named, spots_of
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.findings.sync_bound import waits_come_first, without_waits_s
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, seconds

LEAST_SHARE = 0.10
"""Idle behind the host's dispatch below this share of the step is normal start-up and rounding."""

LEAST_PART = 0.25
"""Part of the late time that memory calls or garbage collection take before they are the hint."""


@finding
def host_bound(facts: Facts) -> Finding | None:
    """Applies when late launches leave the device idle for a tenth of the step or more.

    Gain: a host that is never late leaves the step at its device time, so no more than all idle
    time but the waits for data, which another finding covers, for other ranks, and for what is
    not recorded. Where waits come first (see `sync_bound`), only what they leave.

    Not of a rank that holds up the others by its host: `wait_for_rank` tells that of all ranks.
    """
    late = facts.idle("host dispatching")
    others = [time for cause, time in facts.idle_s.items() if cause != "host dispatching"]
    if facts.share(late) < LEAST_SHARE or late < max(others, default=0.0):
        return None
    if _told_of_all_ranks(facts):
        return None
    if facts.on_host:
        return _between_operators(facts, late)
    elsewhere = ("waiting for data", "waiting for another rank", "unknown")
    gain = facts.step_s - facts.busy_s - sum(map(facts.idle, elsewhere))
    duration = facts.rows.work.end_ns - facts.rows.work.start_ns
    count = facts.count_of(np.ones(len(duration), bool))
    median = seconds(float(np.median(duration)) * 1e-9) if len(duration) else "-"
    busy, step, idle = seconds(facts.busy_s), seconds(facts.step_s), seconds(late)
    share = percent(facts.share(late))
    largest, largest_zh = named(facts, "host dispatching")
    hint, hint_zh = _hint(facts, late)
    waiting, waiting_zh = _waiting(facts)
    pace, pace_zh = "The host delays the device", "主机拖慢了设备"
    if gain >= facts.busy_s:
        pace, pace_zh = "The host sets the pace", "主机决定了速度"
    if waits_come_first(facts):
        gain = max(0.0, gain - without_waits_s(facts))
        pace, pace_zh = "Once the waits are gone the host is still slow", "去掉等待之后主机仍然偏慢"
    return Finding(
        kind="host_bound",
        title=f"{pace}: the device waits for launches {share} of the step.",
        evidence=f"The device works {busy} of the {step} step{waiting}; for {idle} its next "
        f"kernel had not been launched yet. A step has {count} device launches, half of them "
        f"under {median}.{largest}",
        max_gain_s=max(0.0, gain),
        hint=hint,
        title_zh=f"{pace_zh}：设备在一步中有 {share} 的时间在等待内核启动。",
        evidence_zh=f"一步 {step} 中设备只工作 {busy}{waiting_zh}；"
        f"有 {idle} 的时间下一个内核尚未启动。"
        f"每步有 {count} 次设备启动，其中一半短于 {median}。{largest_zh}",
        hint_zh=hint_zh,
    )


def _between_operators(facts: Facts, late_s: float) -> Finding:
    """A run on the host's own processor: what is not in operators is Python and the framework."""
    share, late = percent(facts.share(late_s)), seconds(late_s)
    count = facts.count_of(np.ones(len(facts.rows.work), bool))
    largest, largest_zh = named(facts, "host dispatching")
    step, busy = seconds(facts.step_s), seconds(facts.busy_s)
    return Finding(
        kind="host_bound",
        title=f"Python and the framework take {share} of the step: the processor is between "
        "operators.",
        evidence=f"The operators work {busy} of the {step} step, {count} pieces of work a step; "
        f"{late} lie between them.{largest}",
        max_gain_s=late_s,
        hint="Fewer and larger operators: torch.compile, a fused or foreach optimizer, a larger "
        "batch; less Python inside the step.",
        title_zh=f"Python 与框架占一步的 {share}：处理器处在算子之间。",
        evidence_zh=f"一步 {step} 中算子工作 {busy}，共 {count} 段；算子之间有 {late}。"
        f"{largest_zh}",
        hint_zh="让算子更少、更大：torch.compile、融合或 foreach 优化器、更大的批量；"
        "减少步内的 Python 代码。",
    )


def _waiting(facts: Facts) -> tuple[str, str]:
    """How much of the device's work is waiting in collectives, where that is worth saying."""
    shares = facts.ranks.ranks if facts.ranks is not None else ()
    own = next((share for share in shares if share.rank == facts.rank), None)
    both = own.exposed_transfer_s + own.exposed_waiting_s if own is not None else 0.0
    if own is None or both <= 0:
        return "", ""
    time_s = facts.time_of(facts.of_class("communication")) * own.exposed_waiting_s / both
    if time_s < LEAST_SHARE * facts.busy_s:
        return "", ""
    waits = seconds(time_s)
    return (
        f", {waits} of that waiting for other ranks in collectives",
        f"（其中 {waits} 在集合通信中等待其他进程）",
    )


def _told_of_all_ranks(facts: Facts) -> bool:
    straggler = facts.ranks.straggler if facts.ranks is not None else None
    return (
        straggler is not None
        and straggler.rank == facts.rank
        and straggler.reason == "host dispatching"
    )


def _hint(facts: Facts, late_s: float) -> tuple[str, str]:
    """What to try first, by what the host is busy with."""
    spots = spots_of(facts, "host dispatching")
    if memory_calls_s(spots) >= LEAST_PART * late_s:
        return (
            "Stop getting and freeing device memory in the step: keep the caching allocator on "
            "(PYTORCH_NO_CUDA_MEMORY_CACHING unset), no torch.cuda.empty_cache() in the loop; "
            "where memory is short, expandable_segments:True or a smaller batch.",
            "不要在步内申请和释放显存：保持缓存分配器开启"
            "（不设置 PYTORCH_NO_CUDA_MEMORY_CACHING），循环中不调用 torch.cuda.empty_cache()；"
            "显存不足时使用 expandable_segments:True 或减小批量。",
        )
    if garbage_s(spots) >= LEAST_PART * late_s:
        return (
            "Take Python's garbage collector out of the step: gc.freeze() after start-up, "
            "gc.disable() in the loop and gc.collect() every few hundred steps.",
            "把 Python 垃圾回收移出训练步：启动后调用 gc.freeze()，循环中 gc.disable()，"
            "每隔几百步再 gc.collect()。",
        )
    return (
        "Launch less: torch.compile(mode='reduce-overhead') or CUDA graphs, a fused "
        "optimizer, or more work per launch (a larger batch).",
        "减少启动次数：使用 torch.compile(mode='reduce-overhead') 或 CUDA 图、"
        "融合优化器，或加大批量，让每次启动做更多工作。",
    )
