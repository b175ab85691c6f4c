"""A quick estimate of a deployment under a steady load: two sorts of iterations, in their shares.

With n answers being made, every iteration makes n tokens; a request makes `answer` of them, so
n / answer requests end in it, and as many prompts come in. A prompt comes whole, as far as the
engine's budget goes, so that only a share of the iterations holds any. Both sorts are priced as
`gpuscope.serving` prices them, and Little's law closes the loop. No queue, no bursts: what is
simulated afterwards has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, log, sqrt

from gpuscope.serving.simulate import Deployment

__all__ = [
    "ERROR",
    "SIMULATED_ERROR",
    "TTFT_ERROR",
    "Steady",
    "at_concurrency",
    "at_rate",
    "probability_below",
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
        found: the deployment.
        prompt, answer: mean tokens.
        places: requests in flight; those beyond what memory and engine take wait.
    """
    room = found.memory.requests(prompt, answer)
    most = min(places, room, float(found.engine.max_sequences))
    alone_s = _iteration_s(found, prompt, answer, 0.0, prompt)
    low, high = 0.0, most
    for _ in range(24):  # how many of them decode: the others are at their prompts
        n = (low + high) / 2
        each_s = _mean_s(found, prompt, answer, n)
        if n * (1 + alone_s / (answer * each_s)) < most:
            low = n
        else:
            high = n
    n = max(high, 1e-3)
    tpot_s = _mean_s(found, prompt, answer, n)
    whole_s = places * answer * tpot_s / n  # Little's law
    ttft_s = max(alone_s, whole_s - answer * tpot_s) + found.engine.way_in_s(prompt)
    return Steady(n, tpot_s, ttft_s, n / tpot_s)


def at_rate(found: Deployment, prompt: int, answer: int, rate_per_s: float) -> Steady | None:
    """A replica that so many requests come to each second; None where it cannot keep up."""
    room = found.memory.requests(prompt, answer)
    most = min(room, float(found.engine.max_sequences))
    low, high = 0.0, most
    for _ in range(30):
        n = (low + high) / 2
        each_s = _mean_s(found, prompt, answer, n)
        if n / (answer * each_s) < rate_per_s:
            low = n
        else:
            high = n
    tpot_s = _mean_s(found, prompt, answer, high)
    if high / (answer * tpot_s) < rate_per_s * 0.999:
        return None
    ttft_s = _iteration_s(found, prompt, answer, high, prompt) + tpot_s / 2
    return Steady(high, tpot_s, ttft_s + found.engine.way_in_s(prompt), high / tpot_s)


def probability_below(predicted_s: float, limit_s: float, error: float = ERROR) -> float:
    """Probability that a latency keeps a limit, its error being log-normal."""
    return 0.5 * (1 + erf(log(limit_s / predicted_s) / error / sqrt(2)))


def _mean_s(found: Deployment, prompt: int, answer: int, sequences: float) -> float:
    """The mean iteration of so many answers being made, as many prompts coming as answers end."""
    prefill = sequences * prompt / answer
    share = min(1.0, prefill / min(prompt, found.engine.max_tokens))
    decoding_s = _iteration_s(found, prompt, answer, sequences, 0.0)
    if not share:
        return decoding_s
    mixed_s = _iteration_s(found, prompt, answer, sequences, prefill / share)
    return share * mixed_s + (1.0 - share) * decoding_s


def _iteration_s(
    found: Deployment, prompt: int, answer: int, sequences: float, prefill: float
) -> float:
    """An iteration of so many answers and prompt tokens, in as many as the budget asks for."""
    engine = found.engine
    n = max(0, round(sequences))
    keys = sequences * (prompt + answer / 2)
    budget = max(1, engine.max_tokens - n)
    parts = max(1.0, prefill / budget)
    tokens = round(prefill / parts)
    pairs = tokens * (prompt + 1) / 2
    device_s = found.cost.device_s(tokens, pairs, min(n, 1), n, keys)
    return parts * engine.step_s(device_s, n, tokens)
