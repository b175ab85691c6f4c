"""The hosts of a run of several ranks, where one of them is late: is it alone, or are all slow?

A collective is blamed on the rank that comes last. Where every host is slower than its device, the
slowest host is the last in all collectives, step after step, even if it is slower by little:
making it faster brings the next one to the fore.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.analysis.recorded_types import RankStory
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, sentences

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
    def told(self) -> Text:
        """The figures in a sentence."""
        fastest, second = Seconds(self.fastest_s), Seconds(self.second_s)
        others = Text("{fastest} to {second}", fastest=fastest, second=second)
        return Text(
            "A step takes the host of rank {rank} {slowest}, the others {others}, and its device "
            "{device} of work and transfer.",
            rank=self.rank,
            slowest=Seconds(self.slowest_s),
            others=second if str(fastest) == str(second) else others,
            device=Seconds(self.device_s),
        )

    def title(self, mean_s: float, share: float) -> Text:
        """What to say where all hosts are slow.

        Args:
            mean_s: mean waiting of a rank in a step.
            share: of the ranks' time.
        """
        part, mean = Percent(share), Seconds(mean_s)
        return Text(
            "The hosts of all ranks are slower than their devices; the slowest, that of rank "
            "{rank}, sets the pace: the ranks wait {part} of the time ({mean} a step).",
            rank=self.rank,
            part=part,
            mean=mean,
        )

    @property
    def after_a_late_start(self) -> Text:
        """What follows where the recording shows only the waiting for a rank that began late."""
        return sentences(
            self.told,
            Text(
                "So once the late start is made up, all ranks wait for the host of rank {rank}.",
                rank=self.rank,
            ),
        )

    @property
    def hint(self) -> Text:
        """What to do where all hosts are slow."""
        alone = Seconds(self.lead_s)
        return Text(
            "Launch less on every rank: torch.compile(mode='reduce-overhead') or CUDA graphs, "
            "fewer and larger sharded modules, more work per launch (a larger batch). A faster "
            "host on rank {rank} alone saves at most {alone} a step: then the next is last.",
            rank=self.rank,
            alone=alone,
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
