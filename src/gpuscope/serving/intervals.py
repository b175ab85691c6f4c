"""How much wider an interval is where requests come at a rate: a queue magnifies.

The kernel models are off by a relative half-width s (80 %), and latencies of a closed loop by as
much. Where requests come whether they are served or not, slower iterations mean more sequences in
each, which makes them slower still, and longer queues: near capacity a tenth on device time is a
half on TPOT. So the load is served again with device time longer and shorter by s; what this moves
the medians by is the interval, where it is wider than what is stated without a load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gpuscope.serving.highest import slower
from gpuscope.serving.metrics import e2e_s, tpot_s, ttft_s
from gpuscope.serving.requests import Requests
from gpuscope.serving.result import Serving
from gpuscope.serving.simulate import Deployment, serve_requests
from gpuscope.serving.slices import first_of

SAMPLE = 1000
"""Requests, the first of a load, that are served again."""

MOST = 0.9
_METRICS = {"ttft": ttft_s, "tpot": tpot_s, "e2e": e2e_s}


def under_load(found: Deployment, requests: Requests, made: Serving) -> Serving:
    """A run with the intervals that its load makes of the kernel models'.

    Args:
        found: what served.
        requests: that came at their times.
        made: what became of them.
    """
    some = first_of(requests, SAMPLE)
    base = made if some is requests else serve_requests(found, some)
    spread = made.relative_error["throughput"]
    runs = [serve_requests(slower(found, by), some) for by in (1 + spread, 1 / (1 + spread))]
    slow, quick = (_medians(run) for run in runs)
    middle, wide = _medians(base), dict(made.relative_error)
    for name, usual in middle.items():
        off = np.max([slow[name] / usual, usual / quick[name]]) - 1
        if np.isfinite(off):
            wide[name] = float(min(MOST, max(off, wide[name])))
    return replace(made, relative_error=wide)


def _medians(run: Serving) -> Mapping[str, float]:
    with np.errstate(invalid="ignore", divide="ignore"):
        found = {name: times(run.served) for name, times in _METRICS.items()}
    known = {name: each[np.isfinite(each)] for name, each in found.items()}
    return {name: float(np.median(each)) if len(each) else np.nan for name, each in known.items()}
