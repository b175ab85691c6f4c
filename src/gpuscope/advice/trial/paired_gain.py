"""What was gained in all: the original and the best, where they met in pairs."""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.advice.results import Trial

__all__ = ["Gain", "paired_gain"]

Gain = tuple[float, float, float]
"""A quotient with its interval: low, middle, high."""


def paired_gain(trials: Sequence[Trial], best: Sequence[str], patched: bool = False) -> Gain | None:
    """The original over the best (low, middle, high), from pairs of just these two.

    Args:
        trials: in order; of several measurements the last counts.
        best: what is kept.
        patched: the patch is given, so that the patched source's own gain counts where the changes
            made live were only held against other sets.

    Returns:
        None where there is no such pair.
    """
    live, source = None, None
    for trial in trials:
        if set(trial.names) != set(best) or trial.against or not best:
            continue
        if trial.low is None or trial.speedup is None or trial.high is None:
            continue
        gain = trial.low, trial.speedup, trial.high
        if trial.purpose != "patch":
            live = gain
        elif trial.outcome == "kept" and patched:
            source = gain
    return live or source
