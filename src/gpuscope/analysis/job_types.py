"""A step of a job of many ranks, told rank by rank: computing, communication by group, bubbles."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.document.text import Text


@dataclass(frozen=True, slots=True)
class GroupTime:
    """Communication of one rank over one sort of process group, in one step.

    `exposed_s` and `waiting_s` of all groups of a rank exclude each other: a moment counts once,
    for the group that is named first.

    Attributes:
        label: what the group is for ("dp", "tp", "pp", "cp", "ep", "world").
        running_s: union of its communication, waiting included.
        hidden_s: part of that under kernels.
        exposed_s: part that moves data while no kernel runs on the device.
        waiting_s: part that waits for another rank while no kernel runs on the device.
        pipeline: it is the sends and receives among stages: their waiting is the bubble.
    """

    label: str
    running_s: float
    hidden_s: float
    exposed_s: float
    waiting_s: float
    pipeline: bool = False


@dataclass(frozen=True, slots=True)
class JobRank:
    """One distinct rank; its parts add up to the step, with `JobStory.chance_s`.

    Attributes:
        rank: the rank drawn.
        count: ranks that do the same, itself included.
        place: its coordinates in the mesh, as `JobStory.mesh`; () without a mesh.
        compute_s: kernels run (communication may run beside), or copies alone.
        exposed_s: communication moves data and no kernel runs.
        bubble_s: it waits for another stage of the pipeline.
        imbalance_s: it waits for another rank in any other communication.
        idle_s: nothing runs at all: the host has not launched, or the queue starts up.
        groups: by label, most exposed first.
        model_flops, hardware_flops: of its kernels, without and with what is computed again, as
            `gpuscope.analysis.utilisation` counts them.
    """

    rank: int
    count: int
    place: tuple[int, ...]
    compute_s: float
    exposed_s: float
    bubble_s: float
    imbalance_s: float
    idle_s: float
    groups: tuple[GroupTime, ...]
    model_flops: float = 0.0
    hardware_flops: float = 0.0


@dataclass(frozen=True, slots=True)
class JobPart:
    """One part of the job's step, the mean over all ranks.

    Attributes:
        kind: "compute", "exposed", "bubble", "imbalance", "idle" or "chance".
        label: the group's, for "exposed"; "" otherwise.
        time_s: seconds of the step; all parts add up to it.
    """

    kind: str
    label: str
    time_s: float


@dataclass(frozen=True, slots=True)
class JobStory:
    """What the ranks of a job do with a step.

    Attributes:
        step_s: the step.
        chance_s: part of it that waits for the slowest of all ranks, which vary by chance.
        mesh: names and sizes of the mesh's dimensions, outermost first; () without one.
        ranks: the distinct ranks, by number.
        parts: where the step goes, the mean over all ranks; largest loss after computing.
        limit: what keeps the job from scaling, one sentence.
    """

    step_s: float
    chance_s: float
    mesh: tuple[tuple[str, int], ...]
    ranks: tuple[JobRank, ...]
    parts: tuple[JobPart, ...]
    limit: Text

    @property
    def world_size(self) -> int:
        """Ranks of the job."""
        return sum(rank.count for rank in self.ranks)

    @property
    def mean_model_flops(self) -> float:
        """FLOPs of a step, the mean over all ranks; recomputation left out."""
        return sum(rank.model_flops * rank.count for rank in self.ranks) / self.world_size

    @property
    def mean_hardware_flops(self) -> float:
        """FLOPs of a step, the mean over all ranks; recomputation counted."""
        return sum(rank.hardware_flops * rank.count for rank in self.ranks) / self.world_size

    def mean_s(self, kind: str) -> float:
        """Seconds of the step of one kind, all groups together."""
        return sum(part.time_s for part in self.parts if part.kind == kind)
