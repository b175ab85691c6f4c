"""Constant arrivals: a clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plain_load import LOAD

from gpuscope.serving.arrivals import make_requests


def test_all_gaps_are_alike_whatever_the_seed() -> None:
    for seed in (0, 1):
        found = make_requests(replace(LOAD, arrivals="constant", seed=seed))
        assert found.arrival_s == pytest.approx(np.arange(20_000) / 8)
