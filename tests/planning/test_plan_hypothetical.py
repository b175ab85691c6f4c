"""Devices that do not exist, and whether the choice moves as they should move it."""

from __future__ import annotations

from math import exp
from statistics import NormalDist
from typing import Any

import pytest
from made import asked

import gpuscope as gs
from gpuscope.document.text import render
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.planning.sentences import bound_to
from gpuscope.planning.serving.steady import SIMULATED_ERROR
from gpuscope.planning.serving.types import ServingPlan


def test_figures_are_changed_and_named() -> None:
    (cluster,) = asked(device_set="memory=288GB,bandwidth=8TB/s").clusters
    assert cluster.device.memory_bytes == 288e9
    assert cluster.device.memory_bandwidth_bytes_per_s == 8e12
    told = [render(each, "en") for each in bound_to(cluster, [cluster])]
    assert any("does not exist" in line and "2.88e+11" in line for line in told)
    with pytest.raises(UnknownNameError):
        asked(device_set="beauty=3")
    with pytest.raises(InvalidValueError):
        asked(device_set="memory")


def served(bandwidth: float, slo: str) -> ServingPlan:
    given: dict[str, Any] = {"on": "h200", "devices": "1,2", "rate": 2, "answer": "64"}
    return gs.plan(
        "llama-3.1-8b",
        task="serve",
        device_set=f"bandwidth={bandwidth}TB/s",
        slo=slo,
        simulate=4,
        **given,
    )


def test_the_choice_moves_with_bandwidth_where_the_limit_lies_between() -> None:
    """Answers are made at the pace at which weights are read, prompts are not: 10 % of bandwidth is
    some 6 % of TPOT, and a limit that one device just keeps is broken by one with a tenth less."""
    taken = {each: served(4.8 * each, "tpot<60ms").best for each in (0.9, 1.0, 1.1)}
    times = [best.tpot_s for best in taken.values() if best is not None]
    assert len(times) == 3
    assert 1.03 < times[0] / times[1] < 1 / 0.9
    assert 1.03 < times[1] / times[2] < 1.1
    room = exp(NormalDist().inv_cdf(0.8) * SIMULATED_ERROR)  # what 80 % sure takes
    limit = f"tpot<{(times[0] * times[1]) ** 0.5 * room * 1e3:.4f}ms"  # between two of the three
    counts = []
    for each in (0.9, 1.0, 1.1):
        best = served(4.8 * each, limit).best
        counts.append(0 if best is None else best.choice.cluster.n_devices)
    assert counts == [2, 1, 1]
