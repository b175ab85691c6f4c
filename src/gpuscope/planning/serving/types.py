"""What the parts of serving plans hand to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpuscope.document.printable import short_repr
from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError
from gpuscope.hardware import Cluster
from gpuscope.hardware.grid import WORLD, GridFactor
from gpuscope.planning.figures.registry import Quick
from gpuscope.planning.limits import Most
from gpuscope.planning.types import Rejected, counted
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.serving.slo import Limit

__all__ = ["Offered", "ServingChoice", "ServingPlan", "ServingQuestion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingQuestion:
    """What is asked.

    Attributes:
        model: name of a built-in decoder.
        size: its size.
        clusters: every device and number of devices that may be taken.
        engine: name of an engine's profile.
        prompt, answer: tokens of a request.
        rate_per_s: requests each second that have to be served.
        limits: what is promised; () is nothing but to keep up.
        within: what a million answer tokens may come to at most.
        dtypes, kv_dtypes: of the weights, and of keys and values, that may be taken.
        certainty: least probability to keep up and to keep every limit.
        simulated: how many candidates are simulated.
        grid: what the electricity brings about.
    """

    model: str
    size: TransformerSize
    clusters: tuple[Cluster, ...]
    engine: str
    prompt: int
    answer: int
    rate_per_s: float
    limits: tuple[Limit, ...]
    dtypes: tuple[str, ...]
    kv_dtypes: tuple[str, ...]
    certainty: float = 0.8
    simulated: int = 3
    grid: GridFactor = WORLD
    within: tuple[Most, ...] = ()

    def of_a_million(self, each: Offered) -> Quick:
        """What a million answer tokens come to: seconds at the rate, dollars, joules."""
        token_j = each.energy_per_token_j
        return Quick(
            1e6 / (self.rate_per_s * self.answer),
            each.usd_per_million,
            None if token_j is None else 1e6 * token_j,
        )


@dataclass(frozen=True, slots=True)
class ServingChoice:
    """One way to serve on one cluster.

    Attributes:
        cluster: all devices.
        tp, replicas: how they are used.
        dtype, kv_dtype: of the weights, and of keys and values.
        max_tokens, max_sequences: of an iteration.
        splits: how else a replica's devices share the model, by name ("pp", "ep", "dp":
            `gpuscope.planning.serving.splits`), in the order of names; what is 1 is left out.
        prefill: replicas beside the others, as large, that only work on prompts; 0: every replica
            works on prompts and answers.
    """

    cluster: Cluster
    tp: int
    replicas: int
    dtype: str
    kv_dtype: str
    max_tokens: int
    max_sequences: int
    splits: tuple[tuple[str, int], ...] = ()
    prefill: int = 0

    def __repr__(self) -> str:
        return short_repr(self, f"{self.cluster.name}: {self.words}")

    @property
    def words(self) -> str:
        """As on a command line: "tp 2, replicas 2, fp8, max-tokens 8192, max-sequences 256"."""
        parts = [f"tp {self.tp}"] if self.tp > 1 else []
        parts += [f"{name} {value}" for name, value in self.splits]
        parts += [f"replicas {self.replicas}"] if self.replicas > 1 else []
        parts += [f"prefill {self.prefill}"] if self.prefill else []
        parts.append(self.dtype)
        parts += [f"kv {self.kv_dtype}"] if self.kv_dtype != "bfloat16" else []
        parts += [f"max-tokens {self.max_tokens}", f"max-sequences {self.max_sequences}"]
        return ", ".join(parts)

    @property
    def kinds(self) -> int:
        """Of parallelism, beside replicas."""
        return (self.tp > 1) + len(self.splits) + (self.prefill > 0)

    @property
    def of_a_replica(self) -> int:
        """Devices of a replica."""
        from gpuscope.planning.serving.splits import SPLITS

        devices = self.tp
        for name, value in self.splits:
            devices *= value if SPLITS.get(name).multiplies else 1
        return devices

    @property
    def needed(self) -> int:
        """Devices of all replicas."""
        return self.of_a_replica * (self.replicas + self.prefill)

    def value(self, name: str) -> int:
        """Of a way to share the model; 1 where it is not taken."""
        return dict(self.splits).get(name, 1)

    def split(self, name: str, value: int) -> ServingChoice:
        """The same with another value of a way to share the model; replicas stay as they are."""
        others = {key: known for key, known in self.splits if key != name}
        made = {**others, name: value} if value != 1 else others
        return replace(self, splits=tuple(sorted(made.items())))

    def filled(self) -> ServingChoice | None:
        """The same with as many replicas for answers as its devices hold beside those for prompts;
        None where they do not come out even, or none is left."""
        replicas, rest = divmod(self.cluster.n_devices, self.of_a_replica)
        left = replicas - self.prefill
        return None if rest or left < 1 else replace(self, replicas=left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A candidate with what it would be like.

    Attributes:
        choice: the candidate.
        ttft_s, tpot_s: by the quick score the mean, simulated of nine in ten requests.
        headroom: requests each second that it can serve, as a share of those that come.
        feasible: probability to keep up and to keep every limit.
        usd_per_million: of a million answer tokens at this rate; None where no price is known.
        energy_per_token_j: of an answer token, simulated, at the boards of all devices; None where
            it was not, or no board's power is known.
        simulated: whether it was.
        scored_tpot_s: by the quick score, which chose it.
    """

    choice: ServingChoice
    ttft_s: float
    tpot_s: float
    headroom: float
    feasible: float
    usd_per_million: float | None
    energy_per_token_j: float | None = None
    simulated: bool = False
    scored_tpot_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPlan:
    """The answer.

    Attributes:
        question: what was asked.
        best: the cheapest that is sure enough; None where none is.
        nearest: the surest of all, where none is sure enough.
        ties: those on the cluster of the best, which cost as much and are sure enough, too.
        front: those that no other beats in cost, TPOT, TTFT and energy, and the best; the cheapest
            first.
        judged: all that were simulated, the cheapest first.
        rejected: all that are out.
        candidates: how many were scored.
        complete: False where it was interrupted: the best so far, by the quick score where
            `judged` is empty.
        beyond: where none keeps every latency: what does, and breaks a limit of cost or power.
        overloaded: where none can keep up: what comes nearest to it.
    """

    question: ServingQuestion
    best: Offered | None
    nearest: Offered | None
    ties: tuple[Offered, ...]
    front: tuple[Offered, ...]
    judged: tuple[Offered, ...]
    rejected: tuple[Rejected, ...]
    candidates: int
    complete: bool = True
    beyond: Offered | None = None
    overloaded: Offered | None = None

    def __repr__(self) -> str:
        taken = self.best or self.nearest
        return short_repr(self, repr(taken.choice) if taken else "nothing")

    @property
    def counts(self) -> Mapping[str, int]:
        """Rejected candidates by kind."""
        return counted(self.rejected)

    def to(self, framework: str) -> str:
        """The line that starts the best, or the nearest where none is sure enough.

        Args:
            framework: "vllm" or "sglang".

        Raises:
            UnknownNameError: no such framework.
            UnsupportedError: it cannot start the best.
            DoesNotFitError: none can keep up.
        """
        from gpuscope.planning.serving.launch import launch_line

        taken = self.best or self.nearest
        if taken is None:
            raise DoesNotFitError(
                Text("None of these can serve that many requests: ask for more devices.")
            )
        return launch_line(
            self.question.model, taken.choice, framework, self.question.size.experts is not None
        )
