"""A quick estimate of a deployment under a steady load: two sorts of iterations, in their shares.

With n answers being made, every iteration makes n tokens; a request makes `answer` of them, so
n / answer requests end in it, and as many prompts come in. A prompt comes whole, as far as the
engine's budget goes, so that only a share of the iterations holds any. Both sorts are priced as
`gpuscope.serving` prices them, and Little's law closes the loop. No queue, no bursts: what is
simulated afterwards has them.

Of a pipeline's p stages p batches are under way, each of n / p answers: one comes back when it has
been through all stages, and waits at one of them for the prompts of each other batch. Of g groups
that attend apart each makes n / g answers, and an iteration is that of the group that has the most
prompts. Where prompts have devices of their own, answers' have none; a replica for prompts takes
them one after another, and so does its link (of both the mean wait of Poisson arrivals, by
Pollaczek and Khinchine).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, erf, log, sqrt

from gpuscope.serving.simulate import Deployment

__all__ = [
    "ERROR",
    "SIMULATED_ERROR",
    "TTFT_ERROR",
    "Steady",
    "at_concurrency",
    "at_rate",
    "probability_below",
    "prompts_per_s",
]

ERROR = 0.25
"""Standard deviation of the logarithm of a predicted latency: docs/serving-accuracy.md has a median
error of TPOT of 17 % over rows that nothing was fitted on, which is 0.67 of it. Of the values from
0.05 to 0.8 it also loses least on the rows that constants may be fitted on."""

SIMULATED_ERROR = 0.19
"""The same of a TPOT that was simulated request by request: of the rows that constants may be
fitted on (validation/serving_choice.py)."""

TTFT_ERROR = 0.54
"""The same of TTFT, whose median error there is 36 %."""


@dataclass(frozen=True, slots=True)
class Steady:
    """One replica of a deployment.

    Attributes:
        sequences: answers being made at once.
        tpot_s, ttft_s: as `gpuscope.serving.metrics` defines them.
        tokens_per_s: of answers.
    """

    sequences: float
    tpot_s: float
    ttft_s: float
    tokens_per_s: float


def at_concurrency(found: Deployment, prompt: int, answer: int, places: float) -> Steady:
    """A replica that always has so many requests in flight.

    Args:
        found: the deployment; of prompts that have devices of their own nothing is told.
        prompt, answer: mean tokens.
        places: requests in flight; those beyond what memory and engine take wait.
    """
    most = min(places, _most(found, prompt, answer))
    alone_s = 0.0 if found.prefill else _iteration_s(found, prompt, answer, 0.0, prompt)
    low, high = 0.0, most
    for _ in range(16):  # how many of them decode: the others are at their prompts
        n = (low + high) / 2
        each_s = _mean_s(found, prompt, answer, n, full=True)
        if n * (1 + alone_s / (answer * each_s)) < most:
            low = n
        else:
            high = n
    n = max(high, 1e-3)
    tpot_s = _mean_s(found, prompt, answer, n, full=True)
    whole_s = places * answer * tpot_s / n  # Little's law
    ttft_s = max(alone_s, whole_s - answer * tpot_s) + found.engine.way_in_s(prompt)
    return Steady(n, tpot_s, ttft_s, n / tpot_s)


def at_rate(found: Deployment, prompt: int, answer: int, rate_per_s: float) -> Steady | None:
    """A replica that so many requests come to each second; None where it cannot keep up.

    Where prompts have devices of their own, TTFT is that of their replicas, the rate being their
    share of what comes to all that make answers.
    """
    low, high = 0.0, _most(found, prompt, answer)
    for _ in range(18):
        n = (low + high) / 2
        each_s = _mean_s(found, prompt, answer, n)
        if n / (answer * each_s) < rate_per_s:
            low = n
        else:
            high = n
    tpot_s = _mean_s(found, prompt, answer, high)
    if high / (answer * tpot_s) < rate_per_s * 0.999:
        return None
    way_in_s = found.engine.way_in_s(prompt)
    if found.prefill is not None:
        coming = rate_per_s * found.replicas / found.prefill.replicas
        ahead_s = _ahead_s(found, prompt, coming)
        return None if ahead_s is None else Steady(
            high, tpot_s, way_in_s + ahead_s + 1.5 * tpot_s, high / tpot_s
        )  # fmt: skip
    ttft_s = _iteration_s(found, prompt, answer, high, prompt) + tpot_s / 2
    return Steady(high, tpot_s, ttft_s + way_in_s, high / tpot_s)


def prompts_per_s(found: Deployment, prompt: int) -> float:
    """That all replicas which only work on prompts can take in, and their links send."""
    assert found.prefill is not None
    return found.prefill.replicas / max(_stops_s(found, prompt))


def _stops_s(found: Deployment, prompt: int) -> tuple[float, float]:
    """A prompt's time on a replica of its own, and on its link."""
    assert found.prefill is not None
    assert found.link is not None
    return _iteration_s(found.prefill, prompt, 1, 0.0, prompt), found.link.takes_s(prompt - 1)


def _ahead_s(found: Deployment, prompt: int, rate_per_s: float) -> float | None:
    """From a prompt's arrival to its keys and values being where its answer is made."""
    whole_s = 0.0
    for takes_s in _stops_s(found, prompt):
        busy = rate_per_s * takes_s
        if busy >= 1:
            return None
        whole_s += takes_s + busy * takes_s / (2 * (1 - busy))
    return whole_s


def _most(found: Deployment, prompt: int, answer: int) -> float:
    """Answers that a replica may make at once."""
    room = found.dp * found.memory.requests(prompt, answer)
    return min(room, float(found.dp * found.engine.max_sequences))


def probability_below(predicted_s: float, limit_s: float, error: float = ERROR) -> float:
    """Probability that a latency keeps a limit, its error being log-normal."""
    return 0.5 * (1 + erf(log(limit_s / predicted_s) / error / sqrt(2)))


def _mean_s(
    found: Deployment, prompt: int, answer: int, sequences: float, full: bool = False
) -> float:
    """The mean iteration of so many answers being made, as many prompts coming as answers end.

    In a full house no stage of a pipeline waits for another batch: all always have one.
    """
    decoding_s = _iteration_s(found, prompt, answer, sequences, 0.0)
    prefill = 0.0 if found.prefill else sequences / found.pp * prompt / answer
    share = min(1.0, prefill / min(prompt, found.engine.max_tokens))
    if not share:
        return decoding_s
    mixed_s = _iteration_s(found, prompt, answer, sequences, prefill / share)
    others = (
        0.0 if full else (found.pp - 1) / found.pp
    )  # batches whose prompts are waited for at one stage
    return decoding_s + share * (1.0 + others) * (mixed_s - decoding_s)


def _iteration_s(
    found: Deployment, prompt: int, answer: int, sequences: float, prefill: float
) -> float:
    """An iteration of so many answers and prompt tokens, in as many as the budget asks for.

    Of a batch of a pipeline through all its stages, the host working on one batch at a time.
    """
    engine, cost = found.engine, found.cost
    own = sequences / (found.dp * found.pp)  # of a group, of a batch
    n = max(0, round(own))
    keys = own * (prompt + answer / 2)
    budget = max(1, engine.max_tokens - n)
    groups = max(1, min(found.dp, ceil(prefill / min(prompt, budget))))  # that have prompts
    parts = max(1.0, prefill / (groups * budget))
    tokens = round(prefill / (groups * parts))
    pairs = tokens * (prompt + 1) / 2
    if found.dp > 1:
        idle = [(0, 0.0, 0, n, keys)] * (found.dp - groups)
        device_s = cost.together_s([(tokens, pairs, min(n, 1), n, keys)] * groups + idle)
    else:
        device_s = cost.device_s(tokens, pairs, min(n, 1), n, keys)
    if cost.stages is not None:
        return parts * _through_s(found, device_s, n, tokens)
    return parts * engine.step_s(device_s, n, tokens)


def _through_s(found: Deployment, device_s: float, sequences: int, tokens: int) -> float:
    """A batch through a pipeline: its host and its stages one after the other, unless the batches
    that are under way beside it keep the host or the fullest stage busy for longer."""
    engine, cost, pp = found.engine, found.cost, found.pp
    assert cost.stages is not None
    host_s, serial_s = engine.host_busy_s(sequences, tokens), engine.waits_s(sequences, tokens)
    head_s = cost.scale * cost.head_s(max(1, sequences))
    layers = cost.stages.layers
    last_s = (device_s - head_s) * layers[-1] / sum(layers) + head_s
    fullest_s = max(last_s, (device_s - head_s) * max(layers) / sum(layers)) + serial_s / pp
    hops_s = (pp - 1) * cost.stages.hop_s(tokens + sequences)
    return max(host_s + device_s + serial_s + hops_s, pp * fullest_s, pp * host_s)
