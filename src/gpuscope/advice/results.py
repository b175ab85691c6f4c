"""What comes of advice: forecasts, trials, ladders. Pure data; knows no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gpuscope.advice.types import ChangeCase, Fit, Numerics
from gpuscope.document.printable import counted, short_repr
from gpuscope.document.text import Text, verbatim
from gpuscope.run import Run

__all__ = [
    "Advice",
    "Compared",
    "Forecast",
    "Ladder",
    "Limits",
    "Measured",
    "Objective",
    "Outcome",
    "Parity",
    "Purpose",
    "Refusal",
    "Stopped",
    "Target",
    "Trial",
]

Objective = Literal["time", "memory", "energy", "cost"]

Effect = Literal["helps", "little", "hurts", "does not fit", "fails"]
"""helps: the whole interval of the gain says so; hurts: likewise; little: between; fails: the
changed code cannot be captured (the reason is said)."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """One set of changes, predicted together.

    Attributes:
        names: of the changes, () for the baseline.
        effect: what is to be expected.
        why: one sentence for the reader: what gets faster or slower, and by what.
        speedup: time of the baseline over the changed time, for the same work (a batch twice as
            large counts per sample); low, high: its 80 % interval.
        step_time_s: of the changed step.
        peak_memory_bytes, reserved_memory_bytes: on the fullest device.
        energy_j: of a changed step on one device; None if unknown.
        price: compile time, dependencies: words of `Change.price`, joined; None for nothing.
        run: the prediction; None where it failed or was estimated from a timeline.
    """

    names: tuple[str, ...]
    effect: Effect
    why: Text
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    step_time_s: float | None = None
    peak_memory_bytes: int | None = None
    reserved_memory_bytes: int | None = None
    energy_j: float | None = None
    price: Text | None = None
    run: Run | None = None

    def __repr__(self) -> str:
        gain = None if self.speedup is None else f"{self.speedup:.3g}x"
        return short_repr(self, " + ".join(self.names) or "as it is", self.effect, gain)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that cannot be made here, and why."""

    name: str
    fit: Fit


@dataclass(frozen=True, slots=True)
class Advice:
    """What to change, in order, and what not.

    Attributes:
        case: the workload as it stands.
        objective: what "better" means.
        singles: each change alone, the best first; harmful ones last.
        path: the best combination built up one change at a time, each simulated together with all
            before it; () where nothing helps.
        refused: what cannot be made here.
        notes: what a reader should know.
    """

    case: ChangeCase
    objective: Objective
    singles: tuple[Forecast, ...]
    path: tuple[Forecast, ...]
    refused: tuple[Refusal, ...] = ()
    notes: tuple[Text, ...] = ()

    def __repr__(self) -> str:
        best = self.best
        gain = f"best {best.speedup:.3g}x" if best and best.speedup else "nothing helps"
        tried = counted(len(self.singles), "change")
        return short_repr(
            self, self.case.run.name, tried, gain, "+".join(best.names) if best else ""
        )

    @property
    def best(self) -> Forecast | None:
        """The best combination; None where nothing helps."""
        return self.path[-1] if self.path else None


@dataclass(frozen=True, slots=True)
class Target:
    """What is tried, so that another process can find it.

    Attributes:
        kind: "build" (`file.py:build`, or a built-in model by name), or "script".
        name: "train.py:build", "gpt2", or "train.py".
        options: of the workload, plain values of `WorkloadOptions` by name.
        arguments: of a script.
    """

    kind: Literal["build", "script"]
    name: str
    options: dict[str, object] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one trial may take: seconds in all (compile included), and bytes of device memory."""

    seconds: float = 300.0
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """A variant, measured: median step with its interval, memory, energy.

    Attributes:
        step_s, low_s, high_s: median of blocks of steps and its 95 % interval.
        steps: timed in all.
        peak_memory_bytes, reserved_memory_bytes: most bytes of the process on the device; None on
            a processor.
        energy_j: of a step; None if unknown.
        ready_s: from the start of its process to the end of its warm-up (compile included).
        loader_s: of a step, that its code waited for batches of data loaders; None without any.
    """

    step_s: float
    low_s: float
    high_s: float
    steps: int
    peak_memory_bytes: int | None = None
    reserved_memory_bytes: int | None = None
    energy_j: float | None = None
    ready_s: float = 0.0
    loader_s: float | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """One quantity held against the baseline's.

    Attributes:
        what: "loss", "gradient norm", "output", ...
        largest: largest relative difference over the steps compared.
        tolerance: what is allowed for the numerics chosen.
        steps: how many were compared.
    """

    what: str
    largest: float
    tolerance: float
    steps: int

    @property
    def agrees(self) -> bool:
        """Whether it is within the tolerance (NaN is not)."""
        return self.largest <= self.tolerance


@dataclass(frozen=True, slots=True)
class Parity:
    """Whether a variant still computes the same.

    Attributes:
        verdict: agrees; differs; overflow (NaN or infinity where the baseline has none);
            distribution (the baseline itself varies from run to run: compared by its spread);
            unchecked (nothing comparable was seen: said why).
        numerics: the tolerances' class.
        compared: each quantity.
        note: what a reader should know.
    """

    verdict: Literal["agrees", "differs", "overflow", "distribution", "unchecked"]
    numerics: Numerics
    compared: tuple[Compared, ...] = ()
    note: Text | None = None

    @property
    def good(self) -> bool:
        """Whether a change may be kept."""
        return self.verdict in ("agrees", "distribution")


Outcome = Literal[
    "kept",
    "even",
    "slower",
    "parity",
    "crashed",
    "short",
    "hung",
    "memory",
    "impossible",
    "skipped",
]
"""What became of a trial: it won and was kept; the interval holds no gain; slower; results
differ; its process died; the script ended before it was timed; it ran out of time; out of memory;
the change said that it cannot be made; the budget was over."""


Purpose = Literal["", "jump", "part", "more", "other", "final", "step", "without", "alone", "patch"]
"""Why a trial was made: the whole predicted combination at once; a part of it, to find what spoils
it; one more change on top; another change in place of one that it excludes, or one of which little
is expected; original against best; one step of the ladder; the best without one of its changes; one
change alone; the patched source itself."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One set of changes, really run against the best one before it.

    Attributes:
        names: the whole set.
        added: what is new in it; () for the baseline.
        against: the set that it was held against.
        outcome: what became of it.
        forecast: what was predicted, relative to the baseline; None where it was not.
        expected: predicted speedup over `against`.
        speedup: measured, over `against`, median of interleaved pairs; low, high: 95 % interval.
        measured: this variant.
        parity: against the original code.
        why: what happened, one sentence.
        seconds: the trial took.
        purpose: why it was made.
    """

    names: tuple[str, ...]
    added: tuple[str, ...]
    against: tuple[str, ...]
    outcome: Outcome
    forecast: Forecast | None = None
    expected: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    measured: Measured | None = None
    parity: Parity | None = None
    why: Text = field(default=verbatim(""))
    seconds: float = 0.0
    purpose: Purpose = ""

    def __repr__(self) -> str:
        gain = None if self.speedup is None else f"{self.speedup:.3g}x"
        return short_repr(self, " + ".join(self.names) or "as it is", self.outcome, gain)


class Stopped(KeyboardInterrupt):
    """The user's interruption while a trial ran.

    Args:
        trial: as far as it had come, its outcome "skipped".
    """

    def __init__(self, trial: Trial) -> None:
        super().__init__()
        self.trial = trial


@dataclass(frozen=True, slots=True)
class Ladder:
    """How a workload was improved, step by step, with the evidence.

    Attributes:
        target: what was tried.
        device: "NVIDIA H200 SXM 141GB".
        objective: what "better" means.
        baseline: the code as it was.
        trials: in order, failed and harmful ones too.
        best: names kept at the end, () where nothing won.
        speedup: the original over the best, measured at the end in pairs; low, high.
        patch: unified diff of the user's source; "" where there is none.
        advice: what was predicted before any trial.
        unit, per_step: work of a step ("images", 64), for rates; ("", None) where unknown.
        seconds: it all took.
        notes: what a reader should know (versions, what was skipped).
        interrupted: the user stopped it; what was found until then is here.
    """

    target: Target
    device: str
    objective: Objective
    baseline: Measured
    trials: tuple[Trial, ...]
    best: tuple[str, ...]
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    patch: str = ""
    advice: Advice | None = None
    unit: str = ""
    per_step: int | None = None
    seconds: float = 0.0
    notes: tuple[Text, ...] = ()
    interrupted: bool = False

    def __repr__(self) -> str:
        gain = None if self.speedup is None else f"{self.speedup:.3g}x"
        trials, best = counted(len(self.trials), "trial"), " + ".join(self.best)
        return short_repr(self, f"{self.target.name} on {self.device}", gain, trials, best)
