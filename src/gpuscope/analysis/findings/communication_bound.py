"""Communication that no computation hides."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.job_types import JobStory
from gpuscope.analysis.types import Finding
from gpuscope.analysis.window import COMMUNICATION
from gpuscope.analysis.wording import percent, seconds

LEAST_SHARE = 0.10
"""Exposed communication below this share of the step is usual in well-tuned runs."""


@finding
def communication_bound(facts: Facts) -> Finding | None:
    """Applies when exposed communication takes a tenth of the step or more.

    Gain: all of the exposed time, as if it were hidden under computation. A collective's time
    includes waiting for the slowest rank, which one rank's timeline cannot tell apart. Where the
    other ranks are recorded too, waiting does not count (see `wait_for_rank`). Of a predicted job
    it is the mean over all ranks, told by group.
    """
    if facts.job is not None:
        return _of_job(facts.job)
    rows = facts.of_class("communication")
    exposed = facts.time_of(rows)
    moving = exposed * _transfer_share(facts)
    if facts.share(moving) < LEAST_SHARE:
        return None
    work = facts.rows.work
    events = work.kind == COMMUNICATION
    running = float((work.end_ns - work.start_ns)[events].sum()) * facts.rows.seconds
    share, count = percent(facts.share(moving)), facts.count_of(events)
    waiting, waiting_zh = (
        "; this includes waiting for the slowest rank.",
        "；这包括等待最慢的进程。",
    )
    if facts.ranks is not None:
        waiting = f"; {seconds(moving)} of that would stay if no rank had to wait."
        waiting_zh = f"；其中 {seconds(moving)} 在没有进程需要等待时仍会存在。"
    return Finding(
        kind="communication_bound",
        title=f"Communication between devices takes {share} of the step with no computation "
        "beside it.",
        evidence=f"{count} collectives run for {seconds(running)}, of which {seconds(exposed)} "
        f"are not hidden{waiting}",
        max_gain_s=moving,
        hint=_HINT[0],
        title_zh=f"设备间通信占一步的 {share}，期间没有计算。",
        evidence_zh=f"{count} 次集合通信共运行 {seconds(running)}，其中 {seconds(exposed)} "
        f"没有被掩盖{waiting_zh}",
        hint_zh=_HINT[1],
    )


_HINT = (
    "Overlap it (prefetching all-gathers, buckets that start earlier), send less "
    "(bf16 gradients, sharding within a node), or do more work between two collectives "
    "(larger or accumulated batches).",
    "让通信与计算重叠（预取 all-gather、更早启动的分桶），减少数据量"
    "（bf16 梯度、节点内分片），或在两次通信之间做更多工作（更大或累积的批量）。",
)


def _of_job(job: JobStory) -> Finding | None:
    """The mean over all ranks of a predicted job, by group."""
    exposed_s = job.mean_s("exposed")
    if exposed_s < LEAST_SHARE * job.step_s:
        return None
    share = percent(exposed_s / job.step_s)
    groups = [(part.label, seconds(part.time_s)) for part in job.parts if part.kind == "exposed"]
    listed = ", ".join(f"{label} {time}" for label, time in groups)
    listed_zh = "，".join(f"{label} {time}" for label, time in groups)
    return Finding(
        kind="communication_bound",
        title=f"Communication between devices takes {share} of the step with no computation "
        "beside it.",
        evidence=f"Moving data, waiting left out, mean of {job.world_size} ranks: {listed}.",
        max_gain_s=exposed_s,
        hint=_HINT[0],
        title_zh=f"设备间通信占一步的 {share}，期间没有计算。",
        evidence_zh=f"数据传输（不含等待），{job.world_size} 个进程的平均：{listed_zh}。",
        hint_zh=_HINT[1],
    )


def _transfer_share(facts: Facts) -> float:
    """How much of this rank's exposed communication is transfer; 1 where that is not known.

    Transfer counts as far as it is exposed on the rank where it is hidden best: a rank that waits
    has nothing left to hide it under, which is the waiting's fault. Collectives that other ranks'
    recordings lack are taken to be like the others.
    """
    if facts.ranks is None:
        return 1.0
    own = next((share for share in facts.ranks.ranks if share.rank == facts.rank), None)
    if own is None:
        return 1.0
    both = own.exposed_transfer_s + own.exposed_waiting_s
    best = min(share.exposed_transfer_s for share in facts.ranks.ranks)
    return min(1.0, best / both) if both > 0 else 1.0
