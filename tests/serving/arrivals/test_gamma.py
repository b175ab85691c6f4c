"""Gamma arrivals: the rate, and the spread that was asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plain_load import LOAD

from gpuscope.serving.arrivals import make_requests


@pytest.mark.parametrize(("burstiness", "spread"), [(4.0, 2.0), (1.0, 1.0), (0.25, 0.5)])
def test_burstiness_is_the_squared_spread(burstiness: float, spread: float) -> None:
    found = make_requests(replace(LOAD, arrivals="gamma", burstiness=burstiness))
    gaps = np.diff(found.arrival_s)
    assert gaps.mean() == pytest.approx(1 / 8, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(spread, rel=0.05)
