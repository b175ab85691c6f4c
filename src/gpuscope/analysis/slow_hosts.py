"""The hosts of a run of several ranks, where one of them is late: is it alone, or are all slow?

A collective is blamed on the rank that comes last. Where every host is slower than its device, the
slowest host is the last in all collectives, step after step, even if it is slower by little:
making it faster brings the next one to the fore.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.analysis.recorded_types import RankStory
from gpuscope.analysis.wording import percent, seconds

ALIKE = 0.75
"""Where the second slowest host takes this share of the slowest's time a step, they share one
cause."""


@dataclass(frozen=True, slots=True)
class SlowHosts:
    """The hosts beside that of the slowest, in seconds a step (see `RankShare.host_s`).

    Attributes:
        rank: whose host is the slowest: the straggler's.
        slowest_s, second_s, fastest_s: its host, the slowest and the fastest of the others.
        device_s: what this rank's device works and transfers.
    """

    rank: int
    slowest_s: float
    second_s: float
    fastest_s: float
    device_s: float

    @property
    def alike(self) -> bool:
        """Whether another host is hardly faster, and slower than the device too."""
        return self.second_s >= max(ALIKE * self.slowest_s, self.device_s)

    @property
    def lead_s(self) -> float:
        """What making the straggler's host alone faster can save at most."""
        return self.slowest_s - self.second_s

    @property
    def told(self) -> tuple[str, str]:
        """The figures in a sentence, English and Chinese."""
        slowest, second = seconds(self.slowest_s), seconds(self.second_s)
        fastest, device = seconds(self.fastest_s), seconds(self.device_s)
        others = second if fastest == second else f"{fastest} to {second}"
        others_zh = second if fastest == second else f"{fastest} 至 {second}"
        return (
            f"A step takes the host of rank {self.rank} {slowest}, the others {others}, and its "
            f"device {device} of work and transfer.",
            f"一步中 rank {self.rank} 的主机用时 {slowest}，其他主机 {others_zh}，其设备的工作与"
            f"传输为 {device}。",
        )

    def title(self, mean_s: float, share: float) -> tuple[str, str]:
        """What to say where all hosts are slow.

        Args:
            mean_s: mean waiting of a rank in a step.
            share: of the ranks' time.
        """
        part, mean = percent(share), seconds(mean_s)
        return (
            "The hosts of all ranks are slower than their devices; the slowest, that of rank "
            f"{self.rank}, sets the pace: the ranks wait {part} of the time ({mean} a step).",
            f"所有进程的主机都慢于其设备；最慢的 rank {self.rank} 决定了速度：各进程有 {part} 的"
            f"时间（每步 {mean}）在等待。",
        )

    @property
    def after_a_late_start(self) -> tuple[str, str]:
        """What follows where the recording shows only the waiting for a rank that began late."""
        return (
            f"{self.told[0]} So once the late start is made up, all ranks wait for the host of "
            f"rank {self.rank}.",
            f"{self.told[1]}因此弥补了开始较晚之后，所有进程都会等待 rank {self.rank} 的主机。",
        )

    @property
    def hint(self) -> tuple[str, str]:
        """What to do where all hosts are slow."""
        alone = seconds(self.lead_s)
        return (
            "Launch less on every rank: torch.compile(mode='reduce-overhead') or CUDA graphs, "
            "fewer and larger sharded modules, more work per launch (a larger batch). A faster "
            f"host on rank {self.rank} alone saves at most {alone} a step: then the next is last.",
            "在每个进程上减少启动：使用 torch.compile(mode='reduce-overhead') 或 CUDA 图，分片模块"
            f"更少、更大，每次启动做更多工作（更大的批量）。只加快 rank {self.rank} 的主机每步最多"
            f"节省 {alone}：随后轮到下一个进程最后到达。",
        )


def slow_hosts(story: RankStory) -> SlowHosts | None:
    """Compare the straggler's host with the others'.

    None without a straggler, where its host is not the slowest, or where a host is not known.
    """
    return None if story.straggler is None else _beside(story, story.straggler.rank)


def slowest_host(story: RankStory) -> SlowHosts | None:
    """The host that all ranks will wait for once a late start of the recording is made up.

    None where a straggler is known already, where less than half of the waiting is for a rank
    that began late, within a single step, or where no host stands out: slower than its device
    and clearly than the others.
    """
    began = story.waiting_by_reason.get("began late", 0.0)
    known = {share.rank: share.host_s for share in story.ranks if share.host_s is not None}
    if story.straggler is not None or story.steps < 2 or not known:
        return None
    if began <= 0 or began * 2 < story.waiting_s:
        return None
    found = _beside(story, max(known, key=lambda rank: known[rank]))
    if found is None or found.slowest_s <= found.device_s:
        return None
    return found if found.second_s < ALIKE * found.slowest_s else None


def _beside(story: RankStory, rank: int) -> SlowHosts | None:
    """A rank's host beside the others; None where it is not the slowest or one is not known."""
    own = next(share for share in story.ranks if share.rank == rank)
    others = [share.host_s for share in story.ranks if share.rank != rank]
    known = sorted(time for time in others if time is not None)
    if own.host_s is None or not known or len(known) < len(others) or own.host_s <= known[-1]:
        return None
    device_s = (own.compute_s + own.exposed_transfer_s) / story.steps
    return SlowHosts(rank, own.host_s, known[-1], known[0], device_s)
