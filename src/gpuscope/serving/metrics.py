"""The definitions of what serving is judged by, once for predicted and measured runs.

    TTFT = first token - intended        the client's: what a user waits, a late client's share too
    E2E  = finished - intended
    TPOT = (finished - first token) / (output tokens - 1)     per request; none for one token
    ITL  = time between two tokens; a request's summary of them is kept, not each
    throughput = tokens, or requests, that finished over the time from the first sent to the last
                 finished
    goodput = requests each second that kept every limit; what failed kept none

Percentiles are of finished requests, by linear interpolation. What failed is counted beside them,
never dropped silently. Fewer than 30 finished requests have no P99.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuscope.serving.requests import Floats
from gpuscope.serving.result import FAILED, FINISHED, TIMEOUT, Served, Serving
from gpuscope.serving.slo import Limit

LEAST_FOR_P99 = 30
"""Finished requests below which the 99th percentile is no more than the largest one."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds over requests; None where too few are known."""

    mean_s: float | None
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None


@dataclass(frozen=True, slots=True)
class Metrics:
    """A serving run in figures.

    Attributes:
        requests, finished, failed, timeouts: how many.
        duration_s: first sent to last finished.
        ttft, tpot, e2e, itl_p99: over finished requests; `itl_p99` of each request's own P99.
        requests_per_s, output_tokens_per_s, tokens_per_s: of finished requests; None over no time.
        kept_share: share of all requests that kept every limit; None without limits.
        goodput_per_s: requests each second that did; None without limits.
        energy_per_token_j: over finished output tokens; None unknown.
        usd_per_million: of finished output tokens, for the devices of the run; None unknown.
    """

    requests: int
    finished: int
    failed: int
    timeouts: int
    duration_s: float
    ttft: Spread
    tpot: Spread
    e2e: Spread
    itl_p99: Spread
    requests_per_s: float | None
    output_tokens_per_s: float | None
    tokens_per_s: float | None
    kept_share: float | None = None
    goodput_per_s: float | None = None
    energy_per_token_j: float | None = None
    usd_per_million: float | None = None


def ttft_s(served: Served) -> Floats:
    """Time to the first token, of each request; NaN where none came."""
    return served.first_token_s - served.intended_s


def e2e_s(served: Served) -> Floats:
    """Time to the last token, of each request."""
    return served.finished_s - served.intended_s


def tpot_s(served: Served) -> Floats:
    """Time per output token after the first; NaN for requests of one token."""
    steps = served.output_tokens - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(steps > 0, (served.finished_s - served.first_token_s) / steps, np.nan)


def metrics(found: Serving, limits: Sequence[Limit] = ()) -> Metrics:
    """All figures of a run.

    Args:
        found: predicted or measured.
        limits: what was promised (`slo.parse_slo`).
    """
    served = found.served
    done = served.status == FINISHED
    count = int(done.sum())
    started = float(np.nanmin(served.sent_s)) if np.isfinite(served.sent_s).any() else 0.0
    duration_s = float(served.finished_s[done].max()) - started if count else 0.0
    output = int(served.output_tokens[done].sum())
    every = output + int(served.input_tokens[done].sum())

    def rate(number: int) -> float | None:
        return number / duration_s if duration_s > 0 else None

    kept = int(kept_limits(served, limits).sum()) if limits else 0
    return Metrics(
        requests=len(served),
        finished=count,
        failed=int((served.status == FAILED).sum()),
        timeouts=int((served.status == TIMEOUT).sum()),
        duration_s=duration_s,
        ttft=spread(ttft_s(served)[done]),
        tpot=spread(tpot_s(served)[done]),
        e2e=spread(e2e_s(served)[done]),
        itl_p99=spread(served.gap_p99_s[done] if len(served.gap_p99_s) else np.zeros(0)),
        requests_per_s=rate(count),
        output_tokens_per_s=rate(output),
        tokens_per_s=rate(every),
        kept_share=kept / len(served) if limits else None,
        goodput_per_s=rate(kept) if limits else None,
        energy_per_token_j=found.energy_j / output if found.energy_j and output else None,
        usd_per_million=_usd_per_million(found, duration_s, output),
    )


def _usd_per_million(found: Serving, duration_s: float, output: int) -> float | None:
    price = found.settings.get("usd_per_hour")
    if price is None or not output:
        return None
    return float(price) / 3600 * duration_s / output * 1e6


def kept_limits(served: Served, limits: Sequence[Limit]) -> npt.NDArray[np.bool_]:
    """Which requests finished within every limit; a request of one token has no TPOT to keep."""
    kept: npt.NDArray[np.bool_] = served.status == FINISHED
    with np.errstate(invalid="ignore"):
        for limit in limits:
            kept = kept & (seconds_of(served, limit.metric) <= limit.seconds)
    return kept


def seconds_of(served: Served, metric: str) -> Floats:
    """What a limit on "ttft", "tpot" or "e2e" is held against; 0 for the TPOT of one token."""
    if metric == "tpot":
        return np.nan_to_num(tpot_s(served))
    return ttft_s(served) if metric == "ttft" else e2e_s(served)


def spread(values_s: Floats) -> Spread:
    """Mean and percentiles of what is known."""
    known = values_s[np.isfinite(values_s)]
    if not len(known):
        return Spread(None, None, None, None)
    p50, p90, p99 = (float(each) for each in np.percentile(known, (50, 90, 99)))
    return Spread(float(known.mean()), p50, p90, p99 if len(known) >= LEAST_FOR_P99 else None)
