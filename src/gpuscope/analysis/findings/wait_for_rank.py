"""Ranks wait for another rank: which one, in which collective, and why it is late."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.rank_words import REASONS, RECORD_MORE, WHERE_SEEN
from gpuscope.analysis.recorded_types import RankStory
from gpuscope.analysis.slow_hosts import SlowHosts, slow_hosts, slowest_host
from gpuscope.analysis.types import Finding
from gpuscope.analysis.wording import percent, seconds

LEAST_SHARE = 0.05
"""Waiting for one rank that nothing hides below this share of the ranks' time is usual."""

LEAST_SHARE_OF_ALL = 0.10
"""The same where ranks take turns: small differences between equal ranks always cost something."""

_KINDS = {
    "host dispatching": "host_bound", "host synchronising": "host_bound",
    "waiting for data": "input_bound",
}  # fmt: skip
"""The waiting is only the symptom: a rank whose host is late makes the whole run host-bound."""

_HINTS = {
    "host_bound": (
        "Make that rank's host faster: torch.compile(mode='reduce-overhead') or CUDA graphs, no "
        "synchronisation between collectives, no other process on its cores, equal CPU placement.",
        "让该进程的主机更快：使用 torch.compile(mode='reduce-overhead') 或 CUDA 图，集合通信之间"
        "不做同步，其 CPU 核上不运行其他进程，CPU 绑定保持一致。",
    ),
    "on the host": (
        "Make that rank's host faster: fewer and larger operators, torch.compile, no other process "
        "on its cores, equal CPU placement.",
        "让该进程的主机更快：算子更少、更大，使用 torch.compile，其 CPU 核上不运行其他进程，"
        "CPU 绑定保持一致。",
    ),
    "input_bound": (
        "Speed up its input: more DataLoader workers, prefetching, equal shards, faster storage.",
        "加快其输入：更多 DataLoader 进程、预取、均匀分片、更快的存储。",
    ),
    "more work": (
        "Give the ranks equal work: equal batch and sequence lengths, balanced experts, embedding "
        "tables or pipeline stages.",
        "让各进程的工作量相等：相同的批量与序列长度，均衡的专家、嵌入表或流水线阶段。",
    ),
    "slower kernels": (
        "Check that device: clocks, temperature, power limit, ECC errors, other processes "
        "(nvidia-smi -q); replace it if it stays slow.",
        "检查该设备：时钟、温度、功率上限、ECC 错误、其他进程（nvidia-smi -q）；若一直较慢则更换。",
    ),
    "other communication": (
        "Look at what it communicates beside: other groups, pipeline neighbours, copies.",
        "检查它同时进行的其他通信：其他组、流水线相邻级、拷贝。",
    ),
    "unknown": (
        "Record the host too (ProfilerActivity.CPU), to see what that rank did instead.",
        "同时记录主机（ProfilerActivity.CPU），以便看到该进程当时在做什么。",
    ),
}


@finding
def wait_for_rank(facts: Facts) -> Finding | None:
    """Applies when unhidden waiting takes a twentieth of the ranks' time (a tenth: no straggler).

    Where one rank holds up the others its reason decides the kind: a late host is `host_bound`,
    late input `input_bound`. Likewise where the ranks take turns but most of the waiting has such
    a reason.

    Gain: with one straggler, the most that any rank waits for it, but for a late host no more than
    it takes longer than the second slowest host. Where the hosts are all alike and slower than
    their devices (see `slow_hosts`), all of the waiting. Without a straggler the mean waiting, as
    if the same work were spread evenly. Waiting for a rank that began late is the recorder's and
    not counted; where it hides which host is the slowest, that host is named (`slowest_host`) and
    its lead over the second slowest is the gain.
    """
    story = facts.ranks
    # A predicted job's waiting is told by its causes: `pipeline_bubble`, `imbalance`.
    if story is None or story.span_s <= 0 or facts.job is not None:
        return None
    if (slowest := slowest_host(story)) is not None:
        return _slowest(story, slowest, facts.on_host)
    began = story.waiting_by_reason.get("began late", 0.0)
    counted = 1.0 - began / story.waiting_s if story.waiting_s > 0 else 0.0
    waits = [share.exposed_waiting_s * counted for share in story.ranks]
    share = sum(waits) / (len(waits) * story.span_s)
    straggler = story.straggler
    if share < (LEAST_SHARE if straggler is not None else LEAST_SHARE_OF_ALL):
        return None
    reason = straggler.reason if straggler is not None else _main_reason(story)
    kind = _KINDS.get(reason, "wait_for_rank")
    gain = max(straggler.waits_s) if straggler is not None else sum(waits) / len(waits)
    title, title_zh = _title(story, kind, reason, share)
    hint, hint_zh = _HINTS[kind] if kind in _HINTS else _HINTS[reason]
    evidence, evidence_zh = story.sentence, story.sentence_zh
    hosts = slow_hosts(story) if reason == "host dispatching" else None
    if hosts is not None:
        evidence, evidence_zh = f"{hosts.told[0]} {evidence}", f"{hosts.told[1]}{evidence_zh}"
        gain = gain if hosts.alike else min(gain, hosts.lead_s * story.steps)
        if hosts.alike:
            title, title_zh = hosts.title(share * story.span_s / story.steps, share)
            hint, hint_zh = hosts.hint
    if facts.on_host and kind == "host_bound":
        hint, hint_zh = _HINTS["on the host"]
    if straggler is not None and straggler.seen != "steps":
        hint, hint_zh = f"{RECORD_MORE[0]} {hint}", f"{RECORD_MORE[1]}{hint_zh}"
    return Finding(
        kind=kind,
        title=title,
        evidence=evidence,
        max_gain_s=gain / story.steps,
        hint=hint,
        title_zh=title_zh,
        evidence_zh=evidence_zh,
        hint_zh=hint_zh,
    )


def _slowest(story: RankStory, hosts: SlowHosts, on_host: bool) -> Finding:
    """The slowest host, where all that is recorded is waiting for a rank that began late."""
    hint, hint_zh = _HINTS["on the host" if on_host else "host_bound"]
    time, second = seconds(hosts.slowest_s), seconds(hosts.second_s)
    return Finding(
        kind="host_bound",
        title=f"The host of rank {hosts.rank} is the slowest: a step takes it {time}, the next "
        f"{second}, and all ranks end up waiting for it.",
        evidence=story.sentence,
        max_gain_s=hosts.lead_s,
        hint=hint,
        title_zh=f"rank {hosts.rank} 的主机最慢：每步用时 {time}，次慢者 {second}，所有进程最终都要"
        "等它。",
        evidence_zh=story.sentence_zh,
        hint_zh=hint_zh,
    )


def _main_reason(story: RankStory) -> str:
    """The reason for most of the counted waiting, if it is most of it."""
    known = {why: time for why, time in story.waiting_by_reason.items() if why != "began late"}
    reason, time_s = next(iter(known.items()), ("unknown", 0.0))
    return reason if time_s * 2 > sum(known.values()) else "unknown"


def _title(story: RankStory, kind: str, reason: str, share: float) -> tuple[str, str]:
    mean = seconds(share * story.span_s / story.steps)
    part = percent(share)
    straggler = story.straggler
    why, why_zh = REASONS[reason]
    if straggler is None:
        return (
            f"The ranks wait for each other {part} of the time ({mean} a step), now for one, now "
            "for another.",
            f"各进程有 {part} 的时间（每步 {mean}）在互相等待，被等的进程不固定。",
        )
    rank = straggler.rank
    where, where_zh = WHERE_SEEN[straggler.seen]
    the, comma = (f"{where}, the", "，") if where else ("The", "")
    if kind == "host_bound":
        return (
            f"{the} host of rank {rank} holds up all ranks: they wait {part} of the time ({mean} a "
            f"step) because {why}.",
            f"{where_zh}{comma}rank {rank} 的主机拖慢了所有进程：它们有 {part} 的时间（每步 "
            f"{mean}）在等待，因为{why_zh}。",
        )
    return (
        f"{the} ranks wait for rank {rank} {part} of the time ({mean} a step): {why}.",
        f"{where_zh}{comma}各进程有 {part} 的时间（每步 {mean}）在等待rank {rank}：{why_zh}。",
    )
