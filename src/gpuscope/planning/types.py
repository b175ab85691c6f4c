"""What the room's parts hand to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuscope.document.printable import short_repr
from gpuscope.document.quantities import Number, Seconds
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.hardware import Cluster
from gpuscope.hardware.grid import WORLD, GridFactor
from gpuscope.planning.choice import Choice
from gpuscope.planning.dimensions.registry import Choices, applied
from gpuscope.planning.figures.registry import FIGURES
from gpuscope.planning.limits import Most
from gpuscope.program.models.parallel.options import Parallelism, ParallelOptions
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.types import Category

__all__ = [
    "Candidate",
    "Judged",
    "Neighbour",
    "Plan",
    "Question",
    "Rejected",
    "Simulated",
    "counted",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked.

    Attributes:
        model: name of a built-in decoder.
        size: its size.
        clusters: every device and number of devices that may be taken.
        global_batch: sequences of a step of the whole job.
        seq: tokens of a sequence.
        goal: one of `gpuscope.planning.figures.registry.goals`.
        tokens: of the whole training; None: one step is what counts.
        certainty: least probability to fit.
        simulated: how many candidates are simulated.
        grid: what the electricity brings about.
        tries: values of `gpuscope.planning.dimensions` that were asked for; of others the usual one
            is tried.
        framework: only what this one can start is a candidate; None: anything.
        limits: what the whole may come to at most.
        within_s: processor time of the simulations; 0: no end.
    """

    model: str
    size: TransformerSize
    clusters: tuple[Cluster, ...]
    global_batch: int
    seq: int
    goal: str = "time"
    tokens: float | None = None
    certainty: float = 0.95
    simulated: int = 8
    grid: GridFactor = WORLD
    tries: tuple[tuple[str, tuple[str, ...]], ...] = ()
    framework: str | None = None
    limits: tuple[Most, ...] = ()
    within_s: float = 0.0

    @property
    def steps(self) -> float | None:
        """Of the whole training; None where its tokens were not said."""
        return steps_of(self.tokens, self.global_batch, self.seq)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run it: a cluster and a complete, checked plan.

    Attributes:
        cluster: what it runs on.
        plan: how the model is split.
        more: what else is not usual about it, by dimension (`gpuscope.planning.dimensions`).
    """

    cluster: Cluster
    plan: Parallelism
    more: Choices = ()

    def __repr__(self) -> str:
        return short_repr(self, f"{self.cluster.name}: {self.words}")

    @property
    def words(self) -> str:
        """As on a command line, without what is usual: "tp 2, pp 2, fsdp zero1, microbatch 1"."""
        plan = self.plan
        parts = [f"{n} {getattr(plan, n)}" for n in ("dp", "tp", "pp", "cp", "ep")]
        parts = [part for part in parts if not part.endswith(" 1")]
        if plan.dp * plan.cp > 1:
            parts.append(f"fsdp {plan.fsdp}")
        if plan.pp > 1 and plan.schedule != "1f1b":
            parts.append(plan.schedule)
        if plan.virtual > 1:
            parts.append(f"virtual {plan.virtual}")
        parts.append(f"microbatch {plan.microbatch}")
        if plan.recompute != "none":
            parts.append(f"recompute {plan.recompute}")
        parts += [f"{name} {value}" for name, value in self.more]
        return ", ".join(parts)

    @property
    def asked(self) -> ParallelOptions:
        """The options that make exactly this plan."""
        plan = self.plan
        options = ParallelOptions(
            world=plan.world_size,
            node=self.cluster.devices_per_node,
            dp=plan.dp,
            tp=plan.tp,
            pp=plan.pp,
            cp=plan.cp,
            ep=plan.ep,
            fsdp=plan.fsdp,
            schedule=plan.schedule,
            virtual=plan.virtual,
            microbatch=plan.microbatch,
            global_batch=plan.global_batch,
            recompute=plan.recompute,
        )
        return applied(options, self.more)

    @property
    def devices(self) -> int:
        """Of the whole job."""
        return self.plan.world_size

    @property
    def dimensions(self) -> int:
        """How many things it does besides running the model: fewer are simpler."""
        plan = self.plan
        split = sum(degree > 1 for degree in (plan.dp, plan.tp, plan.pp, plan.cp, plan.ep))
        return split + (plan.recompute != "none") + (plan.schedule != "1f1b") + len(self.more)

    def with_batch(self, microbatches: int) -> Candidate:
        """The same with another number of micro-batches."""
        return replace(self, plan=replace(self.plan, microbatches=microbatches))


@dataclass(frozen=True, slots=True)
class Rejected:
    """A candidate that is out, and why.

    Attributes:
        words: what it was: "h200 x 8: tp 3".
        kind: a stable word: "layout", "memory", "limit", "slower", "not_simulated".
        reason: a `Text` with the number that ruled it out.
    """

    words: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What a simulation says of a candidate's step.

    Attributes:
        scored_s: step time by the quick score, which chose it to be simulated.
        step_s: simulated.
        low_s, high_s: its 80 % interval.
        peak_bytes: allocated, on the fullest rank.
        usable_bytes: of a device.
        fits: probability that it fits.
        energy_j: of a step, all devices; None where the power is not known.
        usd: of a step; None where no price is known.
        rank: the fullest.
        held: its bytes by category at the peak, largest first; empty where they are not known.
        simulated: False where it was interrupted before: all figures are the quick score's, which
            has no interval.
    """

    scored_s: float
    step_s: float
    low_s: float
    high_s: float
    peak_bytes: int
    usable_bytes: int
    fits: float
    energy_j: float | None
    usd: float | None
    rank: int = 0
    held: tuple[tuple[Category, int], ...] = ()
    simulated: bool = True

    def value(self, goal: str) -> float | None:
        """What the goal makes small: seconds, dollars or joules of a step."""
        return FIGURES.get(goal).of(self, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Simulated):
    """A candidate of a training that was simulated."""

    candidate: Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A plan one decision away from the choice.

    Attributes:
        change: the decision: "tp 4 → 2".
        candidate: the plan, of a training or a fine-tuning.
        more: of the goal's figure, as a share of the choice's; None where it is not known.
        peak_bytes: of the fullest rank.
        usable_bytes: of a device.
        rank: the fullest; None where it was not simulated.
    """

    change: str
    candidate: Choice
    more: float | None
    peak_bytes: float
    usable_bytes: int
    rank: int | None


def counted(rejected: Sequence[Rejected]) -> Mapping[str, int]:
    """Rejected candidates by kind."""
    kinds = [each.kind for each in rejected]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer.

    Attributes:
        question: what was asked.
        best: the recommended candidate.
        ties: candidates that cannot be told from the best, it included; the simplest is the best.
        front: those that no other beats in time, cost and energy, quickest first.
        judged: all that were simulated and fit.
        near: those one decision away from the best, the best for the goal first.
        least_s: no step of the best can be quicker: its arithmetic at the devices' peak.
        lightened: the dimension without whose lighter values nothing fitted; "" where it did.
        rejected: all that are out.
        candidates: how many were considered, impossible ones not counted.
        scored_per_s: how many were scored in a second.
        complete: False where it was interrupted: the best so far, by the quick score where
            `judged` is empty.
        cut: how many were simulated, whether they fit or not, where there was no time for those
            that could still win; None where all of these were.
    """

    question: Question
    best: Judged
    ties: tuple[Judged, ...]
    front: tuple[Judged, ...]
    judged: tuple[Judged, ...]
    rejected: tuple[Rejected, ...]
    candidates: int
    scored_per_s: float
    complete: bool = True
    near: tuple[Neighbour, ...] = ()
    least_s: float | None = None
    lightened: str = ""
    cut: int | None = None

    def __repr__(self) -> str:
        best = self.best.candidate
        step = f"step {Seconds(self.best.step_s)}"
        return short_repr(self, f"{best.cluster.name}: {best.words}", step)

    @property
    def counts(self) -> Mapping[str, int]:
        """Rejected candidates by kind."""
        return counted(self.rejected)

    def to(self, framework: str) -> str:
        """What starts the best plan.

        Args:
            framework: "torchtitan", "accelerate", "deepspeed", "fsdp2", "megatron" or "torchrun"
                (a file of `gpuscope.planning.writers`).

        Raises:
            UnknownNameError: no such writer.
            UnsupportedError: the framework cannot do this plan, or no training.
        """
        from gpuscope.planning.frameworks import refuse_other_task
        from gpuscope.planning.writers import WRITERS

        refuse_other_task(framework, "train")
        return WRITERS.get(framework)(self)


def steps_of(tokens: float | None, global_batch: int, seq: float) -> float | None:
    """Steps of a training over so many tokens; None where they were not said.

    Raises:
        InvalidValueError: no tokens.
    """
    if tokens is None:
        return None
    if tokens <= 0:
        raise InvalidValueError(
            Text("A training over {tokens} tokens cannot be.", tokens=Number(tokens, "g")),
            "",
            Text("Type for example: --tokens 100B"),
        )
    return tokens / (global_batch * seq)
