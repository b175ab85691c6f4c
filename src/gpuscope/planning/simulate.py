"""One candidate by the simulator: its time with an interval, exact memory, energy and cost.

A step is affine in its micro-batches once its ranks are filled (a pipeline: from two a stage on;
where gradients are summed over replicas once a step: from two on, since the first one's pass is
also the last's), so two short steps are simulated instead of a long one, and without stages the
longer alone is recorded. Held against the whole step: 0.14 % for Llama 3.1 8B with eight
micro-batches on eight H200s, 1.7 % for GPT-2 on one, where the host sets the pace.

So is the memory of a pipeline: PyTorch has a buffer for what each micro-batch of a step receives
(`PipelineStage._prepare_forward_infra`), from its begin to its end.
"""

from __future__ import annotations

from dataclasses import replace
from math import erf, inf, isnan, nan, sqrt
from statistics import NormalDist
from typing import Any

from gpuscope.api import Own
from gpuscope.hardware import Cluster
from gpuscope.planning.steps import Steps
from gpuscope.planning.types import Candidate, Judged, Question
from gpuscope.program.models.parallel.options import Parallelism
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.types import Category
from gpuscope.timeline.recost import Recosted
from gpuscope.timeline.recost_ranks import RecostedJob, RecostedRank

__all__ = ["Simulator", "figures", "grown_rank", "most_to_fit", "peak_of", "probability_to_fit"]

MEMORY_ERROR = 0.02
"""Standard deviation of the predicted peak, as a share: docs/accuracy.md has a mean error of 0.7 %
and a worst of 8 % over 90 workloads; taken wider than the mean says, for its tail."""


def probability_to_fit(peak_bytes: float, usable_bytes: float) -> float:
    """Probability that the true peak is no more than what a device has, the error being normal."""
    return 0.5 * (1 + erf((usable_bytes - peak_bytes) / (MEMORY_ERROR * peak_bytes) / sqrt(2)))


def most_to_fit(usable_bytes: float, certainty: float) -> float:
    """The largest peak that is as likely to fit: `probability_to_fit` the other way round."""
    return usable_bytes / (1 + MEMORY_ERROR * NormalDist().inv_cdf(certainty))


class Simulator:
    """Simulates candidates.

    Args:
        question: what is asked.
        calibration: constants of a machine of its own, see `gpuscope.predict`.
        fitting: only what is likely enough to fit is of interest: of a pipeline that is not the
            time is not simulated, and not a number.
    """

    def __init__(
        self, question: Question, calibration: Own | None = None, *, fitting: bool = False
    ) -> None:
        self.question, self.fitting = question, fitting
        self._steps = Steps(question.model, calibration)

    def judge(self, candidate: Candidate, scored_s: float) -> Judged:
        """Simulate one candidate.

        Args:
            candidate: what is simulated.
            scored_s: what the quick score said.

        Raises:
            GpuscopeError: the program cannot run on this device.
        """
        cluster, plan = candidate.cluster, candidate.plan
        one, two = _counts(plan)
        # Two short steps of a pipeline are no less work than one as long as both.
        whole = plan.microbatches <= (one + two if plan.pp > 1 else two)
        long = self._short(candidate, plan.microbatches if whole else two, memory=True)
        step = figures(long, plan.world_size)
        if not whole:
            most = 0.0 if isnan(long.step_time_s) else inf
            short = self._short(candidate, one, memory=plan.pp > 1, longer=two, most=most)
            ends = zip(figures(short, plan.world_size), step, strict=True)
            reach = (plan.microbatches - one) / (two - one)
            step_s, low_s, high_s, energy_j = (a + reach * (b - a) for a, b in ends)
            step = step_s, low_s, high_s, energy_j
            if isinstance(short, RecostedJob) and isinstance(long, RecostedJob):
                pairs = zip(short.ranks, long.ranks, strict=True)
                ranks = tuple(grown_rank(a, b, reach) for a, b in pairs)
                long = replace(long, ranks=ranks)
        return Judged(candidate=candidate, scored_s=scored_s, **outcome(step, long, cluster))

    def _short(
        self,
        candidate: Candidate,
        microbatches: int,
        *,
        memory: bool,
        longer: int = 0,
        most: float = inf,
    ) -> Recosted | RecostedJob:
        """The step with so many micro-batches, made of a longer one where that can be; of a
        pipeline that takes more than `most` bytes without time."""
        plan, cluster = candidate.plan, candidate.cluster
        if self.fitting and memory and plan.pp > 1:
            usable = cluster.device.memory_usable_bytes
            most = min(most, most_to_fit(usable, self.question.certainty))

        def options(count: int) -> WorkloadOptions:
            asked = candidate.with_batch(count).asked
            return WorkloadOptions(task="train", seq=self.question.seq, parallel=asked)

        if plan.pp > 1 and microbatches < plan.microbatches:
            whole = options(plan.microbatches)
            return self._steps.of(
                cluster, whole, memory=memory, first=microbatches, most_bytes=most
            )
        made_of = options(longer) if longer else None
        asked = options(microbatches)
        return self._steps.of(cluster, asked, memory=memory, longer=made_of, most_bytes=most)


def grown_rank(short: RecostedRank, long: RecostedRank, reach: float) -> RecostedRank:
    """A rank's memory in a longer step, which is affine in the micro-batches.

    Args:
        short, long: of two short steps, with the memory where it is known.
        reach: how far beyond the short one, as a share of the way to the long one.
    """
    if short.peak_memory_bytes is None or long.peak_memory_bytes is None:
        return long
    before, after = dict(short.at_peak), dict(long.at_peak)

    def at(a: int, b: int) -> int:
        return max(0, round(a + reach * (b - a)))

    held = {kind: at(before.get(kind, 0), after.get(kind, 0)) for kind in {**after, **before}}
    return replace(
        long,
        peak_memory_bytes=at(short.peak_memory_bytes, long.peak_memory_bytes),
        at_peak=tuple(sorted(held.items(), key=lambda item: -item[1])),
    )


def _counts(plan: Parallelism) -> tuple[int, int]:
    """Micro-batches of the two short steps."""
    if plan.pp > 1:
        return 2 * plan.pp, 3 * plan.pp
    return (1, 2) if plan.fsdp in ("full", "hybrid") else (2, 3)


def figures(found: Recosted | RecostedJob, world: int) -> tuple[float, float, float, float]:
    """Step time, its interval, and the energy of all devices, which may be not a number."""
    energy = found.energy_j
    if isinstance(found, Recosted) and energy is not None:
        energy *= world
    low = found.step_time_s if found.low_s is None else found.low_s
    high = found.step_time_s if found.high_s is None else found.high_s
    return found.step_time_s, low, high, nan if energy is None else energy


def outcome(
    step: tuple[float, float, float, float], found: Recosted | RecostedJob, cluster: Cluster
) -> dict[str, Any]:
    """What a simulation says of any candidate: the fields of `Simulated` but the quick score.

    Args:
        step: as `figures` gives it, of the whole step.
        found: with the memory.
        cluster: whose memory and price count.
    """
    step_s, low_s, high_s, energy_j = step
    peak, rank, held = peak_of(found)
    usable, price = cluster.device.memory_usable_bytes, cluster.price_usd_per_hour
    return {
        "step_s": step_s,
        "low_s": low_s,
        "high_s": high_s,
        "peak_bytes": peak,
        "rank": rank,
        "held": held,
        "usable_bytes": usable,
        "fits": probability_to_fit(peak, usable),
        "energy_j": None if isnan(energy_j) else energy_j,
        "usd": None if price is None else price * step_s / 3600,
    }


def peak_of(found: Recosted | RecostedJob) -> tuple[int, int, tuple[tuple[Category, int], ...]]:
    """Bytes of the fullest rank, which it is, and what holds them."""
    fullest = found if isinstance(found, Recosted) else found.fullest
    if fullest is None:
        return 0, 0, ()
    rank = 0 if isinstance(fullest, Recosted) else fullest.rank
    return fullest.peak_memory_bytes or 0, rank, fullest.at_peak
