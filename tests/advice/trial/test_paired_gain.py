"""The gain of original and best: live before patched, the last of several."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.advice.results import Trial
from gpuscope.advice.trial.paired_gain import paired_gain


def _pair(names: tuple[str, ...], against: tuple[str, ...], middle: float, **more) -> Trial:
    known = {"outcome": "kept", **more}
    return Trial(
        names,
        names,
        against,
        known.pop("outcome"),
        speedup=middle,
        low=middle - 0.1,
        high=middle + 0.1,
        **known,
    )


def test_the_gain_is_of_original_and_best_where_they_met() -> None:
    best = ("tf32", "fused-optimizer")
    chain = (_pair(("tf32",), (), 1.5), _pair(best, ("tf32",), 1.2))
    patch = _pair(best, (), 1.95, purpose="patch")
    final = _pair(best[::-1], (), 2.0, purpose="final", outcome="even")
    assert paired_gain(chain, best, True) is None
    assert paired_gain((*chain, patch), best, True) == pytest.approx((1.85, 1.95, 2.05))
    assert paired_gain((*chain, final, patch), best, True) == pytest.approx((1.9, 2.0, 2.1))
    # A patch that is not given, or whose results differ, is no evidence.
    assert paired_gain((*chain, patch), best, False) is None
    assert paired_gain((*chain, replace(patch, outcome="parity")), best, True) is None
    assert paired_gain((patch,), (), True) is None


def test_of_several_pairs_the_last_counts() -> None:
    first, last = (_pair(("tf32",), (), middle) for middle in (1.5, 1.6))
    assert paired_gain((first, last), ("tf32",)) == pytest.approx((1.5, 1.6, 1.7))
