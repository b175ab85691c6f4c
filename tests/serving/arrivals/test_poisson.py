"""Poisson arrivals: the rate, and gaps as spread as they are long."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plain_load import LOAD

from gpuscope.serving.arrivals import make_requests


def test_gaps_are_exponential() -> None:
    gaps = np.diff(make_requests(replace(LOAD, arrivals="poisson")).arrival_s)
    assert gaps.mean() == pytest.approx(1 / 8, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(1, rel=0.05)
    assert (gaps > 1 / 8).mean() == pytest.approx(np.exp(-1), rel=0.05)
