"""What the parts of fine-tuning plans hand to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuscope.document.printable import short_repr
from gpuscope.hardware import Cluster
from gpuscope.hardware.grid import WORLD, GridFactor
from gpuscope.planning.limits import Most
from gpuscope.planning.types import Neighbour, Rejected, Simulated, counted, steps_of
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.rows import Rows
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.models.tuning import FineTuning

__all__ = ["Shortfall", "Tuned", "TuningPlan", "TuningQuestion", "Weighed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningQuestion:
    """What is asked.

    Attributes:
        model: name of a built-in decoder.
        size: its size.
        clusters: every device and number of devices that may be taken.
        methods: some of `gpuscope.program.models.tuning.METHODS`.
        rank, targets: of the adapters.
        global_batch: sequences of a step of the whole job; with `lengths`, examples.
        seq: tokens of a sequence; with `lengths`, the most of one and of a packed row.
        goal: one of `gpuscope.planning.types.GOALS`.
        tokens: of the whole fine-tuning; None: one step is what counts.
        certainty: least probability to fit.
        simulated: how many candidates are simulated.
        grid: what the electricity brings about.
        lengths: of examples that stand for all, the shortest first; none: all have `seq` tokens.
        limits: what the whole may come to at most.
        framework: only devices that this one can start are taken; None: any.
        packings: some of `gpuscope.program.models.rows.PACKINGS`; "none" without `lengths`.
    """

    model: str
    size: TransformerSize
    clusters: tuple[Cluster, ...]
    methods: tuple[str, ...]
    rank: int
    targets: tuple[str, ...]
    global_batch: int
    seq: int
    goal: str = "time"
    tokens: float | None = None
    certainty: float = 0.95
    simulated: int = 6
    grid: GridFactor = WORLD
    lengths: tuple[int, ...] = ()
    packings: tuple[str, ...] = ("none",)
    limits: tuple[Most, ...] = ()
    framework: str | None = None

    @property
    def steps(self) -> float | None:
        """Of the whole fine-tuning; None where its tokens were not said."""
        return steps_of(self.tokens, self.global_batch, self.example_tokens)

    @property
    def example_tokens(self) -> float:
        """Tokens of an example, on average."""
        cut = [min(each, self.seq) for each in self.lengths]
        return sum(cut) / len(cut) if cut else self.seq


@dataclass(frozen=True, slots=True)
class Tuned:
    """One way to fine-tune on one cluster.

    Attributes:
        cluster: what it runs on.
        tuning: method, adapters, optimizer, sharding, micro-batches of a step.
        microbatch: sequences of a micro-batch on one device.
        recompute: every block's activations are computed again in the backward pass.
        passes: micro-batches of a step; of packed rows an average, `tuning` has the next number.
        rows: what they are like where examples differ in length.
    """

    cluster: Cluster
    tuning: FineTuning
    microbatch: int
    recompute: bool
    passes: float
    rows: Rows | None = None

    def __repr__(self) -> str:
        return short_repr(self, f"{self.cluster.name}: {self.words}")

    @property
    def words(self) -> str:
        """As on a command line: "qlora, fsdp full, microbatch 1, recompute full"."""
        parts = [self.tuning.method]
        if self.devices > 1:
            parts.append(f"fsdp {self.tuning.sharding}")
        parts.append(f"microbatch {self.microbatch}")
        if self.rows is not None:
            parts.append(f"packing {self.packing}")
        if self.recompute:
            parts.append("recompute full")
        if self.tuning.optimizer != "adamw":
            parts.append(f"optimizer {self.tuning.optimizer}")
        return ", ".join(parts)

    @property
    def devices(self) -> int:
        """Of the whole job."""
        return self.cluster.n_devices

    @property
    def dimensions(self) -> int:
        """How many things it does besides running the model: fewer are simpler."""
        sharded = self.tuning.sharding != "none"
        return (self.devices > 1) + sharded + self.recompute + (self.tuning.optimizer != "adamw")

    @property
    def packing(self) -> str:
        """How examples lie in rows; "none": all are as long as a row."""
        return "none" if self.rows is None else self.rows.packing

    @property
    def masked(self) -> bool:
        """Whether attention gets a mask."""
        return self.rows is not None and self.rows.masked(self.microbatch)

    def row(self, seq: int, *, usual: bool) -> int:
        """Tokens of a row: of the usual micro-batch, or of the longest; `seq` at most."""
        if self.rows is None:
            return seq
        return min(seq, self.rows.typical if usual else self.rows.longest)

    def options(self, seq: int, *, usual: bool = False) -> WorkloadOptions:
        """What captures its step, of the longest rows or of usual ones."""
        row = self.row(seq, usual=usual)
        return WorkloadOptions(
            task="train",
            batch=self.microbatch,
            seq=row,
            rows=None if self.rows is None else self.rows.at(row),
            dtype="bfloat16",
            amp=False,
            checkpointing=self.recompute,
            tuning=self.tuning,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed(Simulated):
    """A candidate that was simulated.

    Attributes:
        candidate: what was.
        scored_bytes: peak by the quick score.
    """

    candidate: Tuned
    scored_bytes: float


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Something that would need less memory than what was asked for.

    Attributes:
        candidate: what would.
        seq: tokens of a sequence, which may be fewer than asked.
        peak_bytes: of its fullest rank; by the quick score, corrected by what one simulation found,
            or exact where it was simulated itself.
        fits: probability to fit on its own device.
        simulated: whether the peak is exact.
    """

    candidate: Tuned
    seq: int
    peak_bytes: float
    fits: float
    simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningPlan:
    """The answer.

    Attributes:
        question: what was asked.
        best: the recommended candidate; None where nothing fits.
        ties: candidates that cannot be told from the best, it included.
        front: those that no other beats in time, cost and energy, quickest first.
        judged: all that were simulated and fit.
        short: all that were simulated and do not fit, the least short first.
        would_fit: where nothing fits: one change away from the least short, the one that keeps most
            first.
        rejected: all that are out.
        candidates: how many were considered.
        near: those one decision away from the best, the best for the goal first.
        complete: False where it was interrupted: the best so far, by the quick score where
            `judged` is empty.
    """

    question: TuningQuestion
    best: Weighed | None
    ties: tuple[Weighed, ...]
    front: tuple[Weighed, ...]
    judged: tuple[Weighed, ...]
    short: tuple[Weighed, ...]
    would_fit: tuple[Shortfall, ...]
    rejected: tuple[Rejected, ...]
    candidates: int
    complete: bool = True
    near: tuple[Neighbour, ...] = ()

    def __repr__(self) -> str:
        taken = self.best
        return short_repr(self, repr(taken.candidate) if taken else "nothing")

    @property
    def counts(self) -> Mapping[str, int]:
        """Rejected candidates by kind."""
        return counted(self.rejected)

    def to(self, framework: str) -> str:
        """What starts the best.

        Args:
            framework: one of `gpuscope.planning.tuning.launch.FRAMEWORKS`: "peft", a script.

        Raises:
            UnknownNameError: no such framework.
            UnsupportedError: it cannot start this plan.
            DoesNotFitError: nothing fits.
        """
        from gpuscope.planning.tuning.launch import written

        return written(self, framework)
