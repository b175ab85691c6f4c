"""What the parts of plans of models on slices, or shares, hand to each other."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.document.printable import short_repr
from gpuscope.hardware import Cluster
from gpuscope.hardware.shares import share_named
from gpuscope.hardware.slices import Profile
from gpuscope.planning.serving.launch import launch_line
from gpuscope.planning.serving.types import Offered, ServingQuestion

__all__ = ["MEMORY_TAKEN", "WHOLE", "Placed", "SlicedPlan", "SlicedQuestion", "Way"]

MEMORY_TAKEN = 0.9
"""Of a share's memory for weights, keys and values: what vLLM takes of a device by itself."""

WHOLE = Profile("whole", 8, (0,), 1.0)
"""A device that is not split."""


@dataclass(frozen=True, slots=True)
class SlicedQuestion:
    """What is asked.

    Attributes:
        device: name of the device that may be split.
        part: one of `PARTS`.
        demands: what is asked of each model, its `clusters` the whole device.
        devices: that may be taken, at most.
        simulated: how many ways are simulated that turn out to be sure enough.
    """

    device: str
    part: str
    demands: tuple[ServingQuestion, ...]
    devices: int
    simulated: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A model on a slice.

    Attributes:
        model: its name.
        profile: of the slice: "1g.18gb", or "whole".
        rate_per_s: requests each second that it gets.
        offered: what they get.
    """

    model: str
    profile: str
    rate_per_s: float
    offered: Offered


@dataclass(frozen=True, slots=True)
class Way:
    """One way to lay everything onto devices.

    Attributes:
        cluster: one such device, whole.
        devices: the slices of each device, the largest first: (("3g.71gb", "1g.18gb"), ...).
        share: of devices, all slices together.
        placed: every model on every slice that it has.
    """

    cluster: Cluster
    devices: tuple[tuple[str, ...], ...]
    share: float
    placed: tuple[Placed, ...]

    @property
    def feasible(self) -> float:
        """Probability that all keep up and keep every limit: the least, as errors go together."""
        return min(each.offered.feasible for each in self.placed)

    @property
    def words(self) -> str:
        """As "3g.71gb + 1g.18gb | whole"."""
        return " | ".join(" + ".join(each) for each in self.devices)


@dataclass(frozen=True, slots=True)
class SlicedPlan:
    """The answer.

    Attributes:
        question: what was asked.
        best: the fewest devices and least share that is sure enough; None where none is.
        judged: all that were simulated, the least share on the most devices first.
        alone: devices that models would take with whole ones of their own; None where one of them
            could not be served so either.
        candidates: ways that keep up by the quick score, on as few devices and on fewer.
        complete: False where it was interrupted.
    """

    question: SlicedQuestion
    best: Way | None
    judged: tuple[Way, ...]
    alone: int | None
    candidates: int
    complete: bool = True

    def __repr__(self) -> str:
        return short_repr(self, self.taken.words)

    @property
    def taken(self) -> Way:
        """The best, or where none is sure enough the surest."""
        return self.best or max(self.judged, key=lambda each: each.feasible)

    def to(self, framework: str) -> str:
        """Shell lines that make the parts and start the models: "vllm" or "sglang".

        Raises:
            UnknownNameError: no such framework.
        """
        lines = [] if self.question.part != "slices" else _made(self.taken)
        for each in self.taken.placed:
            lines += _started(each, framework)
        return "\n".join(lines)


def _made(way: Way) -> list[str]:
    """Slices are made largest first, so that each finds its place."""
    lines = []
    for number, slices in enumerate(way.devices):
        if slices != (WHOLE.name,):
            lines += [
                f"sudo nvidia-smi -i {number} -mig 1",
                f"sudo nvidia-smi mig -i {number} -cgi {','.join(slices)} -C",
            ]
    return [*lines, "nvidia-smi -L   # the names of slices, for CUDA_VISIBLE_DEVICES"]


def _started(each: Placed, framework: str) -> list[str]:
    line = launch_line(each.model, each.offered.choice, framework)
    share = share_named(each.profile)
    if share is None:
        return [f"# {each.model} on {each.profile}: CUDA_VISIBLE_DEVICES=MIG-...", line]
    option = {"vllm": "gpu-memory-utilization", "sglang": "mem-fraction-static"}[framework]
    start = "# nvidia-cuda-mps-control -d: once a device, before its processes"
    part = f"export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={100 // share.of}"
    ahead = [start, part] if share.way == "mps" else []
    held = f"{line} \\\n  --{option} {MEMORY_TAKEN / share.of:.2f}"
    return [f"# {each.model} on {each.profile} of its device", *ahead, held]
