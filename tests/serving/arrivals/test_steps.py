"""Steps: one rate after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plain_load import LOAD

from gpuscope.errors import InvalidValueError
from gpuscope.serving.arrivals import make_requests


def test_steps_change_the_rate() -> None:
    found = make_requests(replace(LOAD, arrivals="steps:10x20,50x20", count=1500))
    early = (found.arrival_s < 20).sum()
    late = ((found.arrival_s >= 20) & (found.arrival_s < 40)).sum()
    assert early == pytest.approx(200, rel=0.25)
    assert late == pytest.approx(1000, rel=0.15)
    after = found.arrival_s[found.arrival_s >= 40]
    assert np.diff(after).mean() == pytest.approx(1 / 50, rel=0.2)  # the last one goes on


def test_steps_need_no_rate() -> None:
    steps = replace(LOAD, arrivals="steps:2x30", count=50)
    rated = make_requests(steps).arrival_s
    assert (rated == make_requests(replace(steps, rate_per_s=0.0)).arrival_s).all()


@pytest.mark.parametrize("text", ["1", "", "0x5", "5x0", "ax2", "2x30,", "2x30;8x30"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(InvalidValueError, match="no steps"):
        make_requests(replace(LOAD, arrivals=f"steps:{text}"))
